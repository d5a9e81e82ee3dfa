"""The request to load an artifact's engine. It is created after all checks have passed.

``load``, ``verify`` and ``benchmark`` all use this request, so that each of them makes all checks.
The request is plain data, because the engine may be loaded in a child process.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.artifact.opening import Artifact, check_pinned, open_artifact
from enginebay.backend import load_hooks
from enginebay.errors import BackendUnavailableError, ParamsError, UsageError
from enginebay.hooks import BuiltFor, WrapperRequest
from enginebay.inference import coarseness
from enginebay.params import SizeLimits
from enginebay.partition import SIMULATION_FOLDER, Part, load_parts
from enginebay.plugins import choose_backend
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.hooks import TimedLayer
    from enginebay.inference import Wrapper
    from enginebay.tensors import NumpyArray


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to load an artifact's engine.

    Attributes:
        backend: The name of the backend that wrote the engine's files.
        directory: The folder of the engine's files.
        files: The names of the engine's files relative to ``directory``.
        params: The backend's parameters as plain data.
        inputs: The model's inputs.
        outputs: The model's outputs, in order.
        parts: The parts of a model that was cut, with one engine for each part; otherwise empty.
        strict: True to raise an error if the engine uses a fallback.
        sizes: The smallest and the largest size of dynamic dimensions, as far as they are known.
        built_for: The machines that the engine is built for; None if the engine can run on this
            machine. If set, another engine runs the graph from which the engine was built.
    """

    backend: str
    directory: Path
    files: tuple[Path, ...]
    params: dict[str, Any]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    parts: tuple[Part, ...] = ()
    strict: bool = False
    sizes: SizeLimits = {}
    built_for: BuiltFor | None = None

    def load(self) -> Wrapper:
        """Load the engine, and return its wrapper.

        If the engine cannot run on this machine, another engine loads the graph from which the
        engine was built.

        Raises:
            BackendUnavailableError: The backend cannot be used here.
            ConversionError: The engine cannot load the files.
            FallbackError: The engine does not run on the requested device, or ``strict`` is set and
                the receipt lists a fallback.
        """
        backend = load_hooks(self.backend)
        wrapper = load_parts(backend.load, self.wrapper_request(), self.parts)
        wrapper.limit_sizes(self.sizes)
        return wrapper

    def wrapper_request(self) -> WrapperRequest:
        """Return the request with which the backend loads the whole model.

        Raises:
            BackendUnavailableError: The backend cannot be used here.
        """
        return WrapperRequest(
            directory=self.directory,
            files=self.files,
            params=load_hooks(self.backend).Params.from_mapping(self.params),
            inputs=self.inputs,
            outputs=self.outputs,
            strict=self.strict,
            simulation=self.directory / SIMULATION_FOLDER if self.built_for else None,
            backend=self.backend,
        )

    def time_layers(self, inputs: Mapping[str, NumpyArray], runs: int) -> list[TimedLayer]:
        """Load the engine in this process, and return the execution times of its layers.

        Args:
            inputs: The inputs of each run, by name.
            runs: The number of runs.

        Raises:
            UsageError: The backend cannot time layers, or the model was cut into several engines.
        """
        from enginebay.backend import time_layers

        if self.parts:
            raise UsageError(
                "the layers of a model that was cut into several engines cannot be timed"
            )
        return time_layers(self.wrapper_request(), inputs, runs)

    def allowed_precision(self) -> str:
        """Return the coarsest precision in which the engine may compute.

        This is the precision that the parameters allow or, if coarser, the dtype of an input or
        output.
        """
        backend = load_hooks(self.backend)
        requested = backend.allowed_precision(backend.Params.from_mapping(self.params))
        dtypes = {spec.dtype for spec in (*self.inputs, *self.outputs)}
        by_dtype = {"float16": "fp16", "bfloat16": "bf16"}
        # An engine with fp16 inputs or outputs rounds to fp16, whatever its parameters allow.
        implied = [by_dtype[dtype] for dtype in sorted(dtypes & by_dtype.keys())]
        return max([requested, *implied], key=coarseness)


def load_request(
    artifact: str | Path | Artifact,
    *,
    device: str | None = None,
    params: Mapping[str, object] | None = None,
    strict: bool = False,
) -> LoadRequest:
    """Check that an artifact fits this machine, and return the request that loads its engine.

    Args:
        artifact: The artifact's directory, or an open artifact.
        device: The device to run on; None for the device that the artifact was built for.
        params: Other values of the backend's run-time parameters.
        strict: True to raise an error if the engine uses a fallback.

    Raises:
        ArtifactError: The artifact is damaged, incomplete, or bound to another engine or device.
        ParamsError: A parameter is unknown, has an invalid value, or is built into the artifact.
        UsageError: The path cannot be encoded in this locale.
        BackendUnavailableError: The artifact is built for other machines. Or the artifact is bound
            to an engine or device, but the backend cannot be used here.
    """
    opened = open_artifact(artifact)
    manifest = opened.manifest
    choose_backend(manifest.backend, manifest.plugin.distribution)
    changed = _change_params(opened, params) if params else manifest.params
    if device is not None:
        changed = {**changed, "device": device}
    # Any other artifact fits every machine, and does not need the backend here.
    if manifest.built_for or manifest.pinned:
        _check_machine(opened, changed)
    return LoadRequest(
        backend=manifest.backend,
        directory=opened.path,
        files=opened.files,
        params=changed,
        inputs=opened.inputs,
        outputs=opened.outputs,
        parts=manifest.parts,
        strict=strict,
        sizes=manifest.sizes,
    )


def _change_params(opened: Artifact, params: Mapping[str, object]) -> dict[str, Any]:
    kind = load_hooks(opened.backend).Params
    changed = kind.from_mapping({**opened.manifest.params, **params})
    allowed = ("device", *changed.run_time_fields)
    for name in [name for name in params if name not in allowed]:
        raise ParamsError(
            f"{name} is built into '{opened.path}': a load can change {', '.join(allowed)}",
            hint=f"deploy the model again with another {name}",
        )
    return changed.to_mapping()


def _check_machine(opened: Artifact, params: dict[str, object]) -> None:
    manifest = opened.manifest
    backend = load_hooks(manifest.backend)
    typed_params = backend.Params.from_mapping(params)
    if manifest.built_for and (other := backend.elsewhere(typed_params)):
        built_for = BuiltFor(manifest.built_for, other.lacking)
        raise BackendUnavailableError(
            f"'{opened.path}' is {built_for.describe()}", hint="copy the artifact to such a machine"
        )
    if manifest.pinned:
        check_pinned(manifest, backend.bound_to(typed_params), hint=_command_to_rebuild(opened))


def _command_to_rebuild(opened: Artifact) -> str:
    manifest = opened.manifest
    command = manifest.command or "deploy the model again here"
    if (file := opened.ir_file) is None:
        return command
    ir = shlex.quote(str(file))
    return f"{command}, or from the IR in it: enginebay convert {manifest.backend} {ir}"
