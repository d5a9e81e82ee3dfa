"""The contract between core and every plugin: hook specifications and the requests they take.

A backend is a module whose functions, marked with :data:`hookimpl`, answer these hooks::

    import enginebay as eb

    @eb.hookimpl
    def backend_info():
        return eb.BackendInfo(name="myengine", irs=("onnx",), params=MyParams, api_version=1)

Each hook takes one frozen request, so that a field can be added without breaking any plugin.
The distribution announces the module with one entry point: group ``enginebay.backends``, entry
name = backend name. Packs of rewriters, model sources and wrappers around these hooks use the
group ``enginebay.plugins`` and see every backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pluggy

from enginebay.environment import EnvReport, Tier
from enginebay.ir import IRKind, IRModel
from enginebay.params import BackendParams, ShapeProfile
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    from enginebay.inference import Wrapper
    from enginebay.rewriting import RewriterSet

#: The number a plugin writes into its :class:`BackendInfo`. It grows when an existing plugin
#: would have to change; a new hook or a new request field does not change it.
API_VERSION = 1

PROJECT = "enginebay"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

Precision = Literal["fp32", "fp16", "bf16", "int8", "fp8"]


class BackendInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend is and can do.

    Attributes:
        name: The name users type; the same as the entry point's.
        irs: The IRs it converts from, the preferred one first.
        params: The class that declares its parameters.
        api_version: The :data:`API_VERSION` it was written for. Write the number.
        devices: Kinds of device it can run on; the first is the default.
        dtypes: Input and output dtypes, in NumPy's names.
        precisions: What it can be asked to compute in; the first is the default.
        dynamic_shapes: Whether one artifact serves several input shapes.
        runtime_distributions: Requirements for its runtime, one string each, alternatives
            separated by ``|``: ``"onnxruntime>=1.20 | onnxruntime-gpu>=1.20"``.
        pinned: Manifest fields that must be the same where the artifact is loaded.
    """

    name: str
    irs: tuple[IRKind, ...]
    params: type[BackendParams] = BackendParams
    api_version: int = API_VERSION
    devices: tuple[str, ...] = ("cpu",)
    dtypes: tuple[str, ...] = ("float32",)
    precisions: tuple[Precision, ...] = ("fp32",)
    dynamic_shapes: bool = True
    runtime_distributions: tuple[str, ...] = ()
    pinned: tuple[Literal["engine_version"], ...] = ()


class CheckEnvRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks a backend for its checks in one tier.

    Attributes:
        tier: The tier to check. Core asks for them in order, each in a child process with a time
            limit, and stops after one that fails. Core itself checks the runtime distributions
            (metadata) and builds and runs a tiny model (smoke).
        params: The parameters that the backend would be used with.
        with_custom_ops: Whether its custom-op libraries must load too.
        work_dir: An empty folder that is removed afterwards.
        backend: The name of the backend that is asked, for plugins that see every backend.
    """

    tier: Tier
    params: BackendParams
    with_custom_ops: bool
    work_dir: Path
    backend: str = ""


class ConvertRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks a backend to turn an IR into its engine's files.

    Attributes:
        ir: The IR, of a kind that the backend listed. Its files are read-only.
        params: The backend's parameters.
        work_dir: Where the files go. Nothing may be written outside it.
        progress: Called with a short text at each stage of long work.
        shapes: The smallest, usual and largest shape of each input, as a deployment knows them
            from its example, dynamic shapes and parameters; None for a size without a limit.
            Empty where an IR is converted by itself: the parameters are all there is then.
        backend: The name of the backend that is asked, for plugins that see every backend:
            ``eb.get_backend(request.backend)`` has its versions and what else it says.
        samples: Sets of inputs, NumPy arrays by name, that the artifact will be verified with, the
            caller's own example first: something to try the files with, which must serve all
            other inputs as well. Empty where an IR is converted by itself.
    """

    ir: IRModel
    params: BackendParams
    work_dir: Path
    progress: Callable[[str], None]
    shapes: Mapping[str, ShapeProfile] = {}
    backend: str = ""
    samples: tuple[Mapping[str, Any], ...] = ()


class WrapperRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks a backend to make an engine ready for inference.

    Attributes:
        directory: Where the engine's files are.
        files: Their names relative to ``directory``, as ``to_backend`` answered them.
        params: The parameters they were built with; ``params.device`` says where to run.
        inputs: The model's inputs by the names that callers use; empty where only the engine
            knows them.
        outputs: The model's outputs, in order; empty where only the engine knows them.
        strict: Ask the engine itself to refuse falling back, where it can. Core refuses what
            the wrapper's receipt lists as a fallback in any case.
        backend: The name of the backend that is asked, for plugins that see every backend.
    """

    directory: Path
    files: tuple[Path, ...]
    params: BackendParams
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    strict: bool = False
    backend: str = ""


class BindingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks a backend what an artifact is bound to.

    Attributes:
        params: The parameters that the artifact is made or loaded with.
        backend: The name of the backend that is asked, for plugins that see every backend.
    """

    params: BackendParams
    backend: str = ""


class RewritersRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for rewriters.

    Attributes:
        backend: The backend that the model is exported for; empty where it is for none in
            particular, and plugins that see every backend are asked alone.
        ir: The IR that it is exported to.
    """

    backend: str
    ir: IRKind


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks a model source for a model.

    Attributes:
        name: What stands behind the scheme: ``resnet18`` in ``zoo:resnet18``.
        codebase_config: The deploy config's section of this name, where its ``type`` is the
            scheme; empty where there is none. Keys but ``type`` and ``task`` are the source's own,
            and nobody else has checked them.
        input_shapes: The usual shapes that were asked for, by the names that the caller has for
            the inputs; ``""`` where it has none. Core stretches example inputs to them; a model
            that is built for one size needs them before.
    """

    name: str
    codebase_config: Mapping[str, Any] = {}
    input_shapes: Mapping[str, tuple[int | None, ...]] = {}


@hookspec(firstresult=True)
def backend_info() -> BackendInfo:
    """Say what the backend is. Asked once, right after the plugin is loaded; must be quick."""
    raise NotImplementedError


@hookspec(firstresult=True)
def check_env(request: CheckEnvRequest) -> EnvReport:
    """Check one tier of the environment; an empty report where there is nothing to add."""
    raise NotImplementedError


@hookspec(firstresult=True)
def to_backend(request: ConvertRequest) -> Iterable[str | Path]:
    """Write the engine's files into ``request.work_dir`` and answer their paths."""
    raise NotImplementedError


@hookspec(firstresult=True)
def build_wrapper(request: WrapperRequest) -> Wrapper:
    """Load the engine's files and answer a wrapper that runs them."""
    raise NotImplementedError


@hookspec(firstresult=True)
def bound_to(request: BindingRequest) -> Mapping[str, str]:
    """Say what an artifact with these parameters is bound to, as it is on this machine.

    Core keeps the answer in the manifest, asks again before it loads the artifact, and refuses it
    where a field is not the same, before the engine reads a file: ``{"gpu": "H100"}``. What the
    parameters make portable is left out. Fields in ``BackendInfo.pinned`` are added by core.
    """
    raise NotImplementedError


@hookspec
def rewriters(request: RewritersRequest) -> RewriterSet:
    """Answer the rewriters that this plugin contributes to an export."""
    raise NotImplementedError


@hookspec
def model_sources() -> Mapping[str, Callable[[ModelRequest], Any]]:
    """Answer model sources by scheme: ``{"zoo": build}`` makes ``zoo:NAME`` call ``build``.

    The callable takes a :class:`ModelRequest` and returns an ``nn.Module``, or a pair of it and
    its example inputs. It raises a ``ModelSourceError`` for a name that it does not know. A deploy
    config with ``codebase_config = dict(type="zoo")`` lets users leave the scheme out.
    """
    raise NotImplementedError
