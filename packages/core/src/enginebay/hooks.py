"""The contract between core and plugins: hook specifications and their requests.

A backend is a module whose functions, marked with :data:`hookimpl`, implement these hooks::

    import enginebay as eb

    @eb.hookimpl
    def backend_info():
        return eb.BackendInfo(name="myengine", irs=("onnx",), params=MyParams, api_version=1)

Each hook takes one request, a frozen struct, so that a new field does not break plugins. A request
is generic in its parameters: with ``ConvertRequest[MyParams]``, type checkers know the class of
``request.params``. A plugin that applies to every backend annotates its requests without a class:
``ConvertRequest``.

The distribution announces the module with one entry point: group ``enginebay.backends``, entry
name = backend name. Distributions with rewriters, model sources or wrappers around these hooks use
the group ``enginebay.plugins``; core calls their hooks for every backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec
import pluggy

from enginebay.environment import EnvReport, Tier
from enginebay.errors import ConversionError
from enginebay.ir import IRModel
from enginebay.params import BackendParams, IRKind, ShapeProfile
from enginebay.tensors import TensorSpec
from enginebay.verdict import Aligned, ComparisonRequest, ComparisonResult

if TYPE_CHECKING:
    from typing import NoReturn

    from typing_extensions import TypeVar

    from enginebay.inference import Wrapper
    from enginebay.tensors import NumpyArray

    # Type checkers include typing_extensions; at run time it is not a dependency.
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

#: The version of the contract, which a plugin writes into its :class:`BackendInfo`. It increases
#: when existing plugins must change, but not for a new hook or a new field of a request.
API_VERSION = 1

#: The name by which pluggy's markers and its plugin manager belong together.
PROJECT = "enginebay"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def backend_info() -> BackendInfo:
    """Return the backend's name and capabilities.

    Core calls this once, right after it has loaded the plugin; it must be fast.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def check_env(request: CheckEnvRequest) -> EnvReport:
    """Run the plugin's checks of one check-env stage; return a report, empty without checks."""
    raise NotImplementedError


@hookspec(firstresult=True)
def to_backend(request: ConvertRequest) -> Iterable[str | Path]:
    """Write the engine's files into ``request.work_dir`` and return their paths."""
    raise NotImplementedError


@hookspec(firstresult=True)
def quantizable_nodes(request: ConvertRequest) -> Mapping[str, str]:
    """Return node name → operator for the nodes that :func:`to_backend` would compute in 8 bits.

    Core calls this for a precision in ``BackendInfo.calibrated``, and then passes the names that
    must stay in floating point to ``to_backend``, in ``request.keep``. The names must be the same
    in each call for the same IR. A backend without this hook does not support ``keep``.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def unsupported_operators(request: ConvertRequest) -> Mapping[str, str]:
    """Return the nodes or operators in an IR that the engine does not support, with reasons.

    ``enginebay preview`` calls this in a child process. The keys are names of nodes of an ONNX
    file, or operators such as ``aten::sort`` of any other IR; the values are reasons in a few
    words. Empty if the engine supports the whole IR. ``request.work_dir`` may stay empty.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def build_wrapper(request: WrapperRequest) -> Wrapper:
    """Load the engine's files and return a wrapper that runs them."""
    raise NotImplementedError


@hookspec(firstresult=True)
def time_layers(request: LayersRequest) -> Sequence[TimedLayer]:
    """Run the engine with a profiler, and return the engine's layers in the order of execution.

    Core calls this in a separate child process, because a profiler may slow an engine down. Raise a
    ``UsageError`` with the reason if this engine, or this device, cannot time layers. Without this
    hook, a backend does not support the timing of layers.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def bound_to(request: BindingRequest) -> Mapping[str, str]:
    """Return the properties of this machine on which an artifact with ``request.params`` depends.

    Core writes the properties into the manifest: ``{"gpu": "H100"}``. Before core loads the
    artifact, it calls the hook again; if a property differs, it refuses the artifact, and the
    engine reads no file. Omit properties that the parameters make irrelevant. If the engine cannot
    read files of other engine versions, include the version from
    ``eb.get_backend(request.backend)``.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def built_for(request: BindingRequest) -> BuiltFor | None:
    """Return the machines that an engine with ``request.params`` is built for.

    Return None if the engine is built for this machine or for any machine. If ``lacking`` in the
    result is not empty, core builds the engine but does not run it. Core runs the graph instead
    (see ``WrapperRequest.simulation``), and the artifact stays unverified until
    ``enginebay verify`` has run on one of the machines. ``check_env`` still reports whether an
    engine can run on this machine.
    """
    raise NotImplementedError


@hookspec
def rewriters(request: RewritersRequest) -> Rewriters:
    """Return this plugin's rewriters for an export: an :class:`enginebay.RewriterSet`."""
    raise NotImplementedError


@hookspec
def model_sources() -> Mapping[str, Callable[[ModelRequest], object]]:
    """Return model sources by scheme: with ``{"zoo": build}``, ``zoo:NAME`` calls ``build``.

    The callable takes a :class:`ModelRequest`, and returns an ``nn.Module`` or a tuple: the module,
    its example inputs, and optionally its task as plain data and the origin of its weights, from
    ``read_options(request).weights``. The artifact records the origin, which shows users that a
    model has only random weights. The callable raises a ``ModelSourceError`` for an unknown name.
    With ``codebase_config = dict(type="zoo")`` in a deploy config, users can omit the scheme.
    """
    raise NotImplementedError


@hookspec
def codebase_checks() -> Mapping[str, Callable[[ModelRequest], object]]:
    """Return checks of ``codebase_config`` by scheme, for ``enginebay config check``.

    The callable takes a :class:`ModelRequest` whose ``name`` is empty, and raises the
    ``ModelSourceError`` that the model source would raise for the section. It must work where the
    codebase's library is not installed. ``read_options`` is such a callable.
    """
    raise NotImplementedError


@hookspec
def tasks() -> Mapping[str, Callable[[Mapping[str, Any]], Task]]:
    """Return task kind → reader: with ``{"poses": read}``, ``read`` reads tasks of kind ``poses``.

    The callable takes a record (the task as plain data) from a manifest or a user's file, and
    returns a :class:`Task`. It raises a ``UsageError`` for an invalid record.
    """
    raise NotImplementedError


@hookspec
def data_sources() -> Mapping[str, Callable[[DataRequest], object]]:
    """Return data sources by scheme: with ``{"flowers": read}``, ``flowers:NAME`` calls ``read``.

    The callable takes a :class:`DataRequest`, and returns an argument for ``eb.DataSet``: a path,
    an iterable that can be read several times, or a callable that returns one. It raises an
    ``InputError`` for an unknown name.
    """
    raise NotImplementedError


@hookspec
def metrics() -> Mapping[str, Callable[[MetricRequest], object]]:
    """Return metrics by scheme: with ``{"coco": build}``, ``coco:NAME`` calls ``build``.

    The callable takes a :class:`MetricRequest`, and returns a metric for ``lab.evaluate``: an
    object with ``update``, ``compute`` and ``reset``, or a callable that returns one. It raises a
    ``UsageError`` for an unknown name.
    """
    raise NotImplementedError


@hookspec
def comparators() -> Mapping[
    str, Callable[[ComparatorRequest], Callable[[ComparisonRequest], ComparisonResult]]
]:
    """Return comparators by scheme: with ``{"poses": build}``, ``poses:ARGUMENT`` calls ``build``.

    The callable takes a :class:`ComparatorRequest` and returns a comparator: a callable that takes
    a :class:`ComparisonRequest` for each sample and returns a :class:`ComparisonResult`. The
    callable raises a ``UsageError`` for an invalid argument. The comparator raises a ``UsageError``
    if it cannot compare the outputs of the reference.
    """
    raise NotImplementedError


Precision = Literal["fp32", "fp16", "bf16", "int8", "fp8"]


class BackendInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A backend's name and capabilities.

    Attributes:
        name: The backend's name, equal to the name of the entry point.
        irs: The supported IRs, in order of preference.
        params: The class that declares the backend's parameters.
        opset: The default ONNX operator set of an export; None for the exporter's default.
        api_version: The :data:`API_VERSION` that the plugin was written for, as a literal number;
            a tuple for several.
        devices: The supported kinds of devices; the first is the default.
        dtypes: The supported dtypes of inputs and outputs, in NumPy's names. Core refuses inputs
            of any other dtype.
        precisions: The supported precisions; the first is the default.
        dynamic_shapes: True if one artifact can run several input shapes.
        runtime_distributions: The pip requirements of the engine, with alternatives separated by
            ``|``: ``"onnxruntime>=1.20 | onnxruntime-gpu>=1.20"``.
        build_distributions: The pip requirements of the converter, if artifacts run without it: an
            ahead-of-time compiler. A machine that has only the engine passes check-env, runs
            artifacts, and refuses conversions.
        calibrated: The precisions that require calibration data. Core refuses a conversion to such
            a precision without ``ConvertRequest.calibration``.
        operators: The operators that the engine supports, named as in ``torch.ops``: ``aten.add``,
            or one overload, ``aten.max.dim``. For TorchScript and exported programs, core lowers
            all other operators: by the declared lowerings, then by torch's decompositions. Core
            refuses a model in which an unsupported operator remains. None if the backend does not
            list its operators; then core applies only the declared lowerings.
        lacking: For a backend without ``operators``: the operators that torch's exporters write
            but the engine does not support. Core's lowerings replace them.
    """

    name: str
    irs: tuple[IRKind, ...]
    params: type[BackendParams] = BackendParams
    opset: int | None = None
    api_version: int | tuple[int, ...] = API_VERSION
    devices: tuple[str, ...] = ("cpu",)
    dtypes: tuple[str, ...] = ("float32",)
    precisions: tuple[Precision, ...] = ("fp32",)
    dynamic_shapes: bool = True
    runtime_distributions: tuple[str, ...] = ()
    build_distributions: tuple[str, ...] = ()
    calibrated: tuple[Precision, ...] = ()
    operators: frozenset[str] | None = None
    lacking: frozenset[str] = frozenset()


class CheckEnvRequest(msgspec.Struct, Generic[P_co], frozen=True, kw_only=True):
    """Request to run the checks of one check-env stage.

    Attributes:
        tier: The stage to check. Core requests the stages in order, each in a child process with a
            time limit, and stops after a failure. Core itself checks the runtime distributions
            (stage ``metadata``), and builds and runs a tiny model (stage ``smoke``).
        params: The backend's parameters.
        with_custom_ops: True if the custom operators in ``params`` must be loaded too. The plugin
            then calls :func:`enginebay.environment.check_custom_ops` in the stage ``device``;
            without this call, core reports that the backend loads no custom operators.
        work_dir: An empty folder, which core removes after the check.
        backend: The backend's name, for plugins that apply to every backend.
    """

    tier: Tier
    params: P_co
    with_custom_ops: bool
    work_dir: Path
    backend: str = ""


class CalibrationData(Protocol):
    """Calibration data: sets of inputs (NumPy arrays by input name), which can be read repeatedly.

    A set contains one array for each input of the model.
    """

    def __len__(self) -> int:
        """Return the number of input sets."""
        ...

    def __iter__(self) -> Iterator[Mapping[str, NumpyArray]]:
        """Iterate over the input sets; each iteration starts with the first set."""
        ...


#: The type of ``ConvertRequest.lower``, which captures and lowers a module.
Lower: TypeAlias = Callable[[Any, Sequence[Any], frozenset[str]], Any]


def _ignore_text(_text: str) -> None:
    """Default of ``ConvertRequest.progress``, ``note`` and ``suspect``: ignore the text."""


def _ignore_nodes(_nodes: Mapping[str, float]) -> None:
    """Default of ``ConvertRequest.leave_in_float``: ignore the nodes."""


def not_lowered(module: object, inputs: object, operators: object) -> NoReturn:  # noqa: ARG001  # as a Lower
    """Default of ``ConvertRequest.lower``: raise a ConversionError."""
    raise ConversionError("lower() is only available in the requests that core passes to hooks")


class ConvertRequest(msgspec.Struct, Generic[P_co], frozen=True, kw_only=True):
    """Request to convert an IR into the engine's files.

    Attributes:
        ir: The IR, of a kind in ``BackendInfo.irs``. Its files are read-only.
        params: The backend's parameters.
        work_dir: The folder for the engine's files. A backend must not write outside it.
        progress: A function to call with a short text at each stage of long work.
        shapes: Input name → the smallest, the usual and the largest shape, taken from the example,
            the dynamic shapes and the parameters; None for a size without a bound. Empty if an IR
            is converted without its model: then only the parameters specify shapes.
        backend: The backend's name, for plugins that apply to every backend:
            ``eb.get_backend(request.backend)`` returns the backend, with its versions and its
            :class:`BackendInfo`.
        samples: Sets of inputs (NumPy arrays by name) for the artifact's verification: the
            caller's example, then the example at other sizes. A backend can test the engine's
            files with these inputs, but the files must support other inputs as well. Empty if an
            IR is converted without its model.
        calibration: The calibration data for a precision in ``BackendInfo.calibrated``, checked
            against the IR's inputs when it is read; None for any other precision.
        keep: Names of nodes, from :func:`quantizable_nodes`, that must stay in floating point.
        leave_in_float: A function to call with further nodes that stay in floating point, because
            their values do not fit 8 bits (:func:`enginebay.authors.arrays.fits_eight_bits`), each
            with its largest magnitude. Core records them like those in ``keep``, and tells the
            user.
        note: A function to call with a sentence that the user will read beside the verdict.
        suspect: A function to call with a sentence that the user will read if the engine is not
            verified, such as which number in the model is too large for the precision.
        unordered: Names of outputs that a comparator will compare as sets. A backend that compares
            outputs itself must accept any order of their rows.
        simulation: An empty folder for the graph that the engine is built from, if the engine
            cannot run on this machine according to :func:`built_for`; otherwise None.
            :func:`build_wrapper` will load this graph instead of the engine. Core removes the
            folder before it publishes the artifact.
        lower: ``lower(module, inputs, operators)`` exports a module or TorchScript with example
            inputs, whose sizes become fixed, and replaces all operators that are not in
            ``operators``. It returns a ``torch.export.ExportedProgram``, or raises a
            ``ConversionError`` that lists all remaining operators. A backend calls this function if
            it must lower only some models; it then does not declare ``BackendInfo.operators``.
    """

    ir: IRModel
    params: P_co
    work_dir: Path
    progress: Callable[[str], None] = _ignore_text
    shapes: Mapping[str, ShapeProfile] = {}
    backend: str = ""
    samples: tuple[Mapping[str, Any], ...] = ()
    calibration: CalibrationData | None = None
    keep: tuple[str, ...] = ()
    leave_in_float: Callable[[Mapping[str, float]], None] = _ignore_nodes
    note: Callable[[str], None] = _ignore_text
    suspect: Callable[[str], None] = _ignore_text
    unordered: tuple[str, ...] = ()
    simulation: Path | None = None
    lower: Lower = not_lowered


class WrapperRequest(msgspec.Struct, Generic[P_co], frozen=True, kw_only=True):
    """Request to load the engine's files for inference.

    Attributes:
        directory: The folder of the engine's files.
        files: The files' names relative to ``directory``, in the order in which ``to_backend``
            returned them.
        params: The parameters of the conversion; ``params.device`` is the device to run on.
        inputs: The model's inputs, with the names that callers use; empty for files that another
            tool converted, or for a TorchScript file of another tool.
        outputs: The model's outputs, in order; empty for the same files.
        strict: True if the engine should be configured, where possible, to fail instead of falling
            back to another device or precision. Core also refuses the fallbacks that the wrapper's
            receipt lists.
        simulation: The folder of ``ConvertRequest.simulation`` if the engine cannot run on this
            machine, otherwise None. Load the graph in this folder with a different engine, and name
            the different engine in the wrapper's receipt. Raise a ``MissingDependencyError`` if no
            such engine is installed. Core sets this only in a child process, and only for backends
            with :func:`built_for`.
        backend: The backend's name, for plugins that apply to every backend.
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
        load: The engine's files and parameters, as for :func:`build_wrapper`.
        inputs: NumPy arrays by name, with dtypes and shapes that the model accepts.
        runs: The number of runs after one warm-up run; a layer's time is the median of these runs.
    """

    load: WrapperRequest[P_co]
    inputs: Mapping[str, Any]
    runs: int


class TimedLayer(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of an engine, with its time as the engine's profiler reports it.

    Attributes:
        name: The layer's name in the engine.
        operator: The name of the layer's operator in the engine; empty if the engine does not
            report operators.
        seconds: The median duration of the layer over all runs.
        nodes: The names of the IR's nodes that the layer computes, in order. There are several if
            the engine has fused nodes, and none if the engine has inserted the layer or does not
            report nodes.
    """

    name: str
    operator: str = ""
    seconds: float
    nodes: tuple[str, ...] = ()


class BuiltFor(msgspec.Struct, frozen=True):
    """The machines that an engine is built for.

    Attributes:
        machines: A description for users: ``a GPU of compute capability 8.9 or 12.0``.
        lacking: Why this machine does not fit, as the end of a sentence that begins with "this
            machine has": ``no NVIDIA driver (libcuda.so.1)``. Empty if this machine fits.

    Example:
        >>> BuiltFor("a GPU of compute capability 8.9", lacking="a GPU of 7.5").describe()
        'built for a GPU of compute capability 8.9, and this machine has a GPU of 7.5'
    """

    machines: str
    lacking: str = ""

    def describe(self) -> str:
        """Return text to put after "the engine is": the required machines, and this machine."""
        return f"built for {self.machines}, and this machine has {self.lacking}"


class BindingRequest(msgspec.Struct, Generic[P_co], frozen=True, kw_only=True):
    """Request to :func:`bound_to` or :func:`built_for`: which machines can run an artifact?

    Attributes:
        params: The parameters with which an artifact is converted or loaded.
        backend: The backend's name, for plugins that apply to every backend.
    """

    params: P_co
    backend: str = ""


class RewritersRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request for the rewriters of one export.

    Attributes:
        backend: The backend that the model is exported for; empty for an export without a
            backend, for which core calls only the plugins that apply to every backend.
        ir: The IR of the export.
        builtin: False if the export excludes Enginebay's own rewriters.
    """

    backend: str
    ir: IRKind
    builtin: bool = True


class Rewriters(Protocol):
    """What the hook ``rewriters`` returns: an :class:`enginebay.RewriterSet`."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[object]: ...


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to a model source for one model.

    Attributes:
        name: The text after the scheme: ``resnet18`` in ``zoo:resnet18``.
        codebase_config: The section ``codebase_config`` of the deploy config if its ``type`` is
            the scheme, otherwise empty. Core checks only ``type`` and ``task``; all other keys
            belong to the source.
        input_shapes: Input name → the requested example shape; the name is ``""`` for an input
            without a name. Core resizes the example inputs to these shapes; a source needs the
            shapes only if it builds its model for one size.
    """

    name: str
    codebase_config: Mapping[str, Any] = {}
    input_shapes: Mapping[str, tuple[int | None, ...]] = {}


class DataRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to a data source for one data set.

    Attributes:
        name: The text after the scheme: ``val`` in ``flowers:val``.
    """

    name: str


class MetricRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to a plugin for one metric.

    Attributes:
        name: The text after the scheme: ``map`` in ``coco:map``.
    """

    name: str


class ComparatorRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to a plugin for one comparator.

    Attributes:
        argument: The text after the scheme: ``0.9`` in ``poses:0.9``; may be empty.
    """

    argument: str


@runtime_checkable
class Task(Protocol):
    """A model's task, such as image classification: it preprocesses items and reads outputs.

    A plugin implements a task as a frozen ``msgspec.Struct`` or dataclass. An artifact stores the
    fields as JSON, together with the task's kind under the key ``type``.
    """

    def fit(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Task:
        """Return a copy of this task with the tensor names and the input dtypes of a model.

        Raise a ``UsageError`` if the task does not fit the model.
        """
        ...

    def preparation(self) -> object:
        """Return a key that identifies the preprocessing.

        Tasks with equal keys produce equal inputs and targets. The names and dtypes of inputs are
        not part of the key.
        """
        ...

    def preprocess(self, item: Any) -> Mapping[str, NumpyArray]:
        """Return the model's inputs for an item, such as the path of a file: arrays by name."""
        ...

    def open_folder(self, path: Path) -> Any:
        """Return a folder's items in a form for ``eb.DataSet``: pairs of inputs and a target.

        The result may have an attribute ``targets``: a text about the meaning of class indices,
        which is then recorded in manifests and in the results of an evaluation.
        """
        ...

    def read_outputs(self, outputs: Mapping[str, NumpyArray], item: Any) -> Sequence[object]:
        """Return the predictions for an item, best first, all of one ``msgspec.Struct`` type."""
        ...

    def check_drawing(self, path: Path) -> None:
        """Raise a ``UsageError`` if :meth:`draw` cannot write this file."""
        ...

    def draw(self, item: Any, found: Sequence[Any], path: Path) -> None:
        """Draw the predictions for an item on a copy of the item, and write the copy to a file."""
        ...
