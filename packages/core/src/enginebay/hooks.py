"""The contract between core and every plugin: hook specifications and the requests they take.

A backend is a module whose functions, marked with :data:`hookimpl`, implement these hooks::

    import enginebay as eb

    @eb.hookimpl
    def backend_info():
        return eb.BackendInfo(name="myengine", irs=("onnx",), params=MyParams, api_version=1)

Each hook takes one frozen request, so that a field can be added without breaking any plugin.
A request is generic in its parameters: a backend writes ``ConvertRequest[MyParams]``, and type
checkers know the class of ``request.params``. A plugin for every backend writes ``ConvertRequest``.

The distribution announces the module with one entry point: group ``enginebay.backends``, entry
name = backend name. Packs of rewriters, model sources and wrappers around these hooks use the
group ``enginebay.plugins`` and see every backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec
import pluggy

from enginebay.environment import EnvReport, Tier
from enginebay.errors import ConversionError
from enginebay.inference import TimedLayer
from enginebay.ir import IRKind, IRModel
from enginebay.params import BackendParams, ShapeProfile
from enginebay.tensors import TensorSpec
from enginebay.verdict import Aligned, ComparisonRequest, ComparisonResult

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from enginebay.inference import Wrapper
    from enginebay.rewriting import RewriterSet

    # Every type checker carries typing_extensions; at run time it is no dependency of ours.
    P_co = TypeVar("P_co", bound=BackendParams, covariant=True, default=BackendParams)
else:
    from typing import TypeVar

    P_co = TypeVar("P_co", bound=BackendParams, covariant=True)

__all__ = [
    "API_VERSION",
    "Aligned",
    "BackendInfo",
    "BindingRequest",
    "BuiltFor",
    "CalibrationData",
    "CheckEnvRequest",
    "ComparatorRequest",
    "ComparisonRequest",
    "ComparisonResult",
    "ConvertRequest",
    "DataRequest",
    "LayersRequest",
    "MetricRequest",
    "ModelRequest",
    "Precision",
    "RewritersRequest",
    "Task",
    "TimedLayer",
    "WrapperRequest",
    "hookimpl",
]

#: The number a plugin writes into its :class:`BackendInfo`. It grows when an existing plugin
#: would have to change; a new hook or a new request field does not change it.
API_VERSION = 1

PROJECT = "enginebay"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

Precision = Literal["fp32", "fp16", "bf16", "int8", "fp8"]


class BackendInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A backend's name and what it can do.

    Attributes:
        name: The name users type; the same as the entry point's.
        irs: The IRs it converts from, the preferred one first.
        params: The class that declares its parameters.
        opset: The ONNX operator set to export where the caller requests none; None for the
            exporter's own choice.
        api_version: The :data:`API_VERSION` it was written for. Write the number.
        devices: Kinds of device it can run on; the first is the default.
        dtypes: Input and output dtypes, in NumPy's names; an input of another one is refused.
        precisions: Precisions it can compute in; the first is the default.
        dynamic_shapes: True if one artifact can serve several input shapes.
        runtime_distributions: Requirements for its runtime, one string each, alternatives
            separated by ``|``: ``"onnxruntime>=1.20 | onnxruntime-gpu>=1.20"``.
        calibrated: Precisions that need a data set to be calibrated with. Core refuses to convert
            in one of them without ``ConvertRequest.calibration``.
        operators: The operators that the engine has, as in ``torch.ops``: ``aten.add``, or one
            overload, ``aten.max.dim``. In an IR of torch's, all others are lowered: by the declared
            lowerings, then by torch's own decompositions; a model of which any are left is refused.
            None where the backend does not say; then only what has a lowering is lowered.
        lacking: Operators that the engine lacks, of those that torch's exporters write, where it
            does not list those that it has: core's lowerings take their place.
    """

    name: str
    irs: tuple[IRKind, ...]
    params: type[BackendParams] = BackendParams
    opset: int | None = None
    api_version: int = API_VERSION
    devices: tuple[str, ...] = ("cpu",)
    dtypes: tuple[str, ...] = ("float32",)
    precisions: tuple[Precision, ...] = ("fp32",)
    dynamic_shapes: bool = True
    runtime_distributions: tuple[str, ...] = ()
    calibrated: tuple[Precision, ...] = ()
    operators: frozenset[str] | None = None
    lacking: frozenset[str] = frozenset()


class CheckEnvRequest(msgspec.Struct, Generic[P_co], frozen=True, kw_only=True):
    """Request to check one tier of the environment.

    Attributes:
        tier: The tier to check. Core requests them in order, each in a child process with a time
            limit, and stops after one that fails. Core itself checks the runtime distributions
            (metadata) and builds and runs a tiny model (smoke).
        params: The parameters that the backend would be used with.
        with_custom_ops: True if the custom operators that ``params`` name must load too. The
            device tier then has :func:`enginebay.environment.check_custom_ops`; without it, core
            reports that the backend loads none.
        work_dir: An empty folder that is removed afterwards.
        backend: The backend's name, for plugins that see every backend.
    """

    tier: Tier
    params: P_co
    with_custom_ops: bool
    work_dir: Path
    backend: str = ""


class CalibrationData(Protocol):
    """Sets of inputs, NumPy arrays by name, that can be read again and again, one at a time."""

    def __len__(self) -> int:
        """How many sets there are."""
        ...

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Start again from the first."""
        ...


#: Captures and lowers a module: see ``ConvertRequest.lower``.
Lower: TypeAlias = Callable[[Any, Sequence[Any], frozenset[str]], Any]


def _unheard(_text: str) -> None:
    """Show no progress."""


def not_lowered(module: Any, inputs: Sequence[Any], operators: frozenset[str]) -> Any:  # noqa: ARG001  # as a Lower
    """Lower nothing: what a request has until core fills in the backend's own."""
    raise ConversionError("this request was not made by a conversion, and lowers nothing")


class ConvertRequest(msgspec.Struct, Generic[P_co], frozen=True, kw_only=True):
    """Request to convert an IR into the engine's files.

    Attributes:
        ir: The IR, of a kind that the backend listed. Its files are read-only.
        params: The backend's parameters.
        work_dir: The folder for the files. Nothing may be written outside it.
        progress: Called with a short text at each stage of long work.
        shapes: The smallest, usual and largest shape of each input, which a deployment knows
            from its example, dynamic shapes and parameters; None for a size without a limit.
            Empty if an IR is converted without its model: then only the parameters can say them.
        backend: The backend's name, which core fills in, for plugins that see every backend:
            ``eb.get_backend(request.backend)`` has its versions and its :class:`BackendInfo`.
        samples: Sets of inputs, NumPy arrays by name, that the artifact will be verified with,
            the caller's own example first. The files can be tried with them, but must serve all
            other inputs as well. Empty if an IR is converted without its model.
        calibration: What a precision in ``BackendInfo.calibrated`` is calibrated with, checked
            against the IR's inputs when it is read; None in any other precision.
        keep: Nodes that stay in floating point in such a precision, out of those that
            :func:`quantizable_nodes` lists.
        unordered: Outputs that will be compared as sets, by a comparator: a backend that compares
            them itself must accept another order.
        simulation: An empty folder for the graph that the engine is built from, which
            :func:`build_wrapper` will load in the engine's place, where :func:`built_for` says
            that it cannot run here; else None. It is removed before the artifact is published.
        lower: For a converter that lowers a model only where it must, and lists no operators in its
            ``BackendInfo``. Captures a module, or TorchScript, with example inputs whose sizes the
            result is bound to, and lowers it to the ``operators``. Returns a
            ``torch.export.ExportedProgram``; raises a ``ConversionError`` that lists all operators
            that are left.
    """

    ir: IRModel
    params: P_co
    work_dir: Path
    progress: Callable[[str], None] = _unheard
    shapes: Mapping[str, ShapeProfile] = {}
    backend: str = ""
    samples: tuple[Mapping[str, Any], ...] = ()
    calibration: CalibrationData | None = None
    keep: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()
    simulation: Path | None = None
    lower: Lower = not_lowered


class WrapperRequest(msgspec.Struct, Generic[P_co], frozen=True, kw_only=True):
    """Request to load the engine's files for inference.

    Attributes:
        directory: The folder of the engine's files.
        files: Their names relative to ``directory``, as ``to_backend`` returned them.
        params: The parameters they were built with; ``params.device`` is the device to run on.
        inputs: The model's inputs by the names that callers use; empty if only the engine
            knows them.
        outputs: The model's outputs, in order; empty if only the engine knows them.
        strict: True if the engine itself should refuse to fall back, where it can. Core refuses
            the fallbacks that the wrapper's receipt lists in any case.
        simulation: The folder of ``ConvertRequest.simulation``, in a child process, where the
            engine cannot run here: load the graph in it with another engine that can. The
            wrapper's receipt names that engine. Raise a ``MissingDependencyError`` where there is
            none. Only for backends with :func:`built_for`.
        backend: The backend's name, for plugins that see every backend.
    """

    directory: Path
    files: tuple[Path, ...]
    params: P_co
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    strict: bool = False
    simulation: Path | None = None
    backend: str = ""


class LayersRequest(msgspec.Struct, Generic[P_co], frozen=True, kw_only=True):
    """Request to time the layers of an engine.

    Attributes:
        load: The engine's files and what they are loaded with, as for :func:`build_wrapper`.
        inputs: NumPy arrays by name, of the dtypes and shapes that the model takes.
        runs: The number of runs whose median is wanted, after one that is not counted.
    """

    load: WrapperRequest[P_co]
    inputs: Mapping[str, Any]
    runs: int


class BuiltFor(msgspec.Struct, frozen=True):
    """The machines that an engine is built for.

    Attributes:
        machines: As people name them: ``a GPU of compute capability 8.9 or 12.0``.
        lacking: What this machine has instead of what it takes to be one of them, as it follows
            "this machine has": ``no NVIDIA driver (libcuda.so.1)``. Empty where it is one.

    Example:
        >>> BuiltFor("a GPU of compute capability 8.9", lacking="a GPU of 7.5").describe()
        'built for a GPU of compute capability 8.9, and this machine has a GPU of 7.5'
    """

    machines: str
    lacking: str = ""

    def describe(self) -> str:
        """The part of a sentence that says why an engine cannot run here."""
        return f"built for {self.machines}, and this machine has {self.lacking}"


class BindingRequest(msgspec.Struct, Generic[P_co], frozen=True, kw_only=True):
    """Request for the facts about machines that an artifact depends on.

    Attributes:
        params: The parameters that the artifact is made or loaded with.
        backend: The backend's name, for plugins that see every backend.
    """

    params: P_co
    backend: str = ""


class RewritersRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request for the rewriters of one export.

    Attributes:
        backend: The backend that the model is exported for; empty if it is for none in
            particular, and then only plugins that see every backend are called.
        ir: The IR that it is exported to.
    """

    backend: str
    ir: IRKind


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to a model source for one model.

    Attributes:
        name: The text behind the scheme: ``resnet18`` in ``zoo:resnet18``.
        codebase_config: The deploy config's section of this name if its ``type`` is the scheme,
            else empty. Keys other than ``type`` and ``task`` belong to the source, and core has
            not checked them.
        input_shapes: The usual shapes that were requested, by the caller's names for the inputs;
            ``""`` for an input without a name. Core resizes example inputs to them; a model
            that is built for one size needs them earlier.
    """

    name: str
    codebase_config: Mapping[str, Any] = {}
    input_shapes: Mapping[str, tuple[int | None, ...]] = {}


class DataRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to a data source for one data set.

    Attributes:
        name: The text behind the scheme: ``val`` in ``flowers:val``.
    """

    name: str


class MetricRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to a plugin for one metric.

    Attributes:
        name: The text behind the scheme: ``map`` in ``coco:map``.
    """

    name: str


class ComparatorRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to a plugin for one comparator.

    Attributes:
        argument: The text behind the scheme: ``0.9`` in ``poses:0.9``; empty for none.
    """

    argument: str


@runtime_checkable
class Task(Protocol):
    """What a model is for, as the plugin that declares the kind understands it.

    A frozen ``msgspec.Struct`` or dataclass: its fields, as JSON with the kind under ``type``, are
    the record that an artifact keeps.
    """

    def fit(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Task:
        """Return the task with what it left out, such as names; refuse it with a ``UsageError``."""
        ...

    def preparation(self) -> Any:
        """Return what makes inputs and targets of items: two tasks with equal ones make the same.

        Names and dtypes of inputs are no part of it.
        """
        ...

    def preprocess(self, item: Any) -> Mapping[str, Any]:
        """Make the model's inputs of one item, such as the path of a file: arrays by name."""
        ...

    def open_folder(self, path: Path) -> Any:
        """Return a folder's files as ``eb.DataSet`` takes data: pairs of inputs and a target.

        Where ``targets`` of the result is text, records say that targets are numbered by it.
        """
        ...

    def read_outputs(self, outputs: Mapping[str, Any], item: Any) -> Sequence[Any]:
        """Return what the model found in an item, the best first: all of one ``msgspec.Struct``."""
        ...

    def check_drawing(self, path: Path) -> None:
        """Refuse a file that :meth:`draw` cannot write, with a ``UsageError``."""
        ...

    def draw(self, item: Any, found: Sequence[Any], path: Path) -> None:
        """Write an item with what was found in it to a file."""
        ...


@hookspec(firstresult=True)
def backend_info() -> BackendInfo:
    """Return what the backend is and can do.

    Called once, right after the plugin is loaded; must be quick.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def check_env(request: CheckEnvRequest) -> EnvReport:
    """Check one tier of the environment; return an empty report if there is nothing to add."""
    raise NotImplementedError


@hookspec(firstresult=True)
def to_backend(request: ConvertRequest) -> Iterable[str | Path]:
    """Write the engine's files into ``request.work_dir`` and return their paths."""
    raise NotImplementedError


@hookspec(firstresult=True)
def quantizable_nodes(request: ConvertRequest) -> Mapping[str, str]:
    """Return the nodes that :func:`to_backend` would compute in 8 bits: their operators by name.

    Called for a precision in ``BackendInfo.calibrated``, before ``to_backend`` gets some of the
    names in ``request.keep``: they, and no others, stay in floating point. The names are the same
    each time for the same IR. A backend without this hook cannot keep any.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def unsupported_operators(request: ConvertRequest) -> Mapping[str, str]:
    """Return what :func:`to_backend` or the engine could not run of an IR: all of it, with reasons.

    Called by ``enginebay preview``, in a child process. The keys are names of nodes of an ONNX
    file, and operators such as ``aten::sort`` of any other IR; the values say why in a few words.
    Empty where the engine can run it all. Nothing need be written into ``request.work_dir``.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def build_wrapper(request: WrapperRequest) -> Wrapper:
    """Load the engine's files and return a wrapper that runs them."""
    raise NotImplementedError


@hookspec(firstresult=True)
def time_layers(request: LayersRequest) -> Sequence[TimedLayer]:
    """Load the engine with its profiler, run it, and return its layers in the order they run.

    Called in a child process of its own: an engine may be slower while it is watched. Raise a
    ``UsageError`` that says why where this engine, or this device, cannot time layers. A backend
    without this hook cannot.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def bound_to(request: BindingRequest) -> Mapping[str, str]:
    """Return the facts about this machine that an artifact with these parameters is bound to.

    Core writes them into the manifest: ``{"gpu": "H100"}``. It calls the hook again before it
    loads the artifact, and refuses the artifact if a field differs, before the engine reads a
    file. Leave out what the parameters make portable. ``eb.get_backend(request.backend)`` has the
    engine's version, for one that reads no files of another.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def built_for(request: BindingRequest) -> BuiltFor | None:
    """Return the machines that an engine with these parameters is built for.

    None where it is built for this machine, or for any. Where the result says what this machine
    lacks, core builds the engine without running it: its graph runs in its place, see
    ``WrapperRequest.simulation``, and the artifact stays unverified until ``enginebay verify`` runs
    it on one of the machines. ``check_env`` says as ever if an engine could run here.
    """
    raise NotImplementedError


@hookspec
def rewriters(request: RewritersRequest) -> RewriterSet:
    """Return the rewriters that this plugin contributes to an export."""
    raise NotImplementedError


@hookspec
def model_sources() -> Mapping[str, Callable[[ModelRequest], Any]]:
    """Return model sources by scheme: ``{"zoo": build}`` makes ``zoo:NAME`` call ``build``.

    The callable takes a :class:`ModelRequest` and returns an ``nn.Module``; or a pair of it and
    its example inputs; or a triple, with a task that says what it is for, as plain data; or four,
    with the origin of its weights, ``read_options(request).weights``, which the artifact keeps: who
    reads ``random (seed 0)`` does not trust its answers. It raises a ``ModelSourceError`` for a
    name that it does not know. A deploy config with
    ``codebase_config = dict(type="zoo")`` lets users leave the scheme out.
    """
    raise NotImplementedError


@hookspec
def tasks() -> Mapping[str, Callable[[Mapping[str, Any]], Task]]:
    """Return what reads tasks by kind: ``{"poses": read}`` for records with ``type`` ``poses``.

    The callable takes the record, as it stands in a manifest or a user's file, checks it and
    returns a :class:`Task`. It raises a ``UsageError`` for a record that it does not take.
    """
    raise NotImplementedError


@hookspec
def data_sources() -> Mapping[str, Callable[[DataRequest], Any]]:
    """Return data sources by scheme: ``{"flowers": read}`` makes ``flowers:NAME`` call ``read``.

    The callable takes a :class:`DataRequest` and returns what ``eb.DataSet`` takes: a path, an
    iterable that can be read again, or a callable that returns one. It raises an ``InputError``
    for a name that it does not know.
    """
    raise NotImplementedError


@hookspec
def metrics() -> Mapping[str, Callable[[MetricRequest], Any]]:
    """Return metrics by scheme: ``{"coco": build}`` makes ``coco:NAME`` call ``build``.

    The callable takes a :class:`MetricRequest` and returns what ``lab.evaluate`` takes: an object
    with ``update``, ``compute`` and ``reset``, or a callable that returns one. It raises a
    ``UsageError`` for a name that it does not know.
    """
    raise NotImplementedError


@hookspec
def comparators() -> Mapping[str, Callable[[ComparatorRequest], Any]]:
    """Return comparators by scheme: ``{"poses": build}`` makes ``poses:ARGUMENT`` call ``build``.

    The callable takes a :class:`ComparatorRequest` and returns a comparator: a callable that takes
    a :class:`ComparisonRequest` for each sample and returns a :class:`ComparisonResult`. It raises
    a ``UsageError`` for an argument that it does not take, and the comparator raises one for
    outputs of the reference that it cannot compare.
    """
    raise NotImplementedError
