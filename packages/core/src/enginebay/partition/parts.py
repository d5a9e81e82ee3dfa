"""Conversion and loading of a model that was cut into parts, with one engine for each part."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.hooks import ConvertRequest
from enginebay.tensors import TensorSpec

#: The folder, next to the engine's files, for the graph of an engine that cannot run here.
SIMULATION_FOLDER = "simulation"

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay.hooks import WrapperRequest
    from enginebay.inference import Wrapper
    from enginebay.ir import IRModel
    from enginebay.params import BackendParams


class Part(msgspec.Struct, frozen=True):
    """One part of a model that was cut; its engine runs after the engines of earlier parts.

    Attributes:
        folder: The folder of the engine's files, relative to the artifact.
        files: Names of the engine's files relative to the folder, as the backend listed them.
        inputs: The part's inputs: inputs of the model, or outputs of earlier parts.
        outputs: The part's outputs: inputs of later parts, or outputs of the model.
    """

    folder: str
    files: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the engine's files relative to the artifact."""
        return tuple(f"{self.folder}/{file}" for file in self.files)


def convert_parts(
    convert: Callable[[ConvertRequest[Any]], tuple[Path, ...]],
    models: Sequence[IRModel],
    params: BackendParams,
    work_dir: Path,
    progress: Callable[[str], None],
    *,
    simulate: bool = False,
) -> tuple[Part, ...]:
    """Convert the parts of a model into the folders ``part_0``, ``part_1`` and so on.

    Args:
        convert: The method :meth:`BackendHooks.convert`, which converts one part.
        models: The IRs of the parts.
        params: The backend's parameters for the whole model.
        work_dir: The parent of the new folders.
        progress: A function that is called with messages about the converter's progress.
        simulate: True if the engines cannot run on this machine. Each part then gets a folder for
            the graph that another engine runs instead.

    Returns:
        The folder, files, inputs and outputs of each part.

    Raises:
        ConversionError: A part could not be converted.
    """
    parts = []
    for number, model in enumerate(models):
        folder = work_dir / f"part_{number}"
        folder.mkdir()
        request = ConvertRequest(
            ir=model,
            params=_select_shapes(params, model.inputs),
            work_dir=folder,
            progress=progress,
            simulation=simulation_folder(folder) if simulate else None,
        )
        files = convert(request)
        names = tuple(file.as_posix() for file in files)
        parts.append(Part(folder.name, names, model.inputs, model.outputs))
    return tuple(parts)


def simulation_folder(directory: Path) -> Path:
    """Create and return a folder in ``directory`` for the graph from which an engine is built."""
    folder = directory / SIMULATION_FOLDER
    folder.mkdir()
    return folder


def load_parts(
    load: Callable[[WrapperRequest], Wrapper], request: WrapperRequest, parts: Sequence[Part]
) -> Wrapper:
    """Load all parts of a model, and return a wrapper of the whole model.

    Args:
        load: The method :meth:`BackendHooks.load`, which loads one part.
        request: The request for the whole model.
        parts: The parts; empty if the model was not cut.

    Raises:
        ConversionError: An engine cannot load its files.
        FallbackError: A part does not run on the requested device, or ``request.strict`` is set and
            the receipt of a part lists a fallback.
    """
    if not parts:
        return load(request)
    from enginebay.partition.chained_wrapper import ChainedWrapper

    with ExitStack() as loaded:  # closes the loaded parts if a later part fails
        wrappers = [loaded.enter_context(load(_request_for_part(part, request))) for part in parts]
        chain = ChainedWrapper(wrappers, inputs=request.inputs, outputs=request.outputs)
        loaded.pop_all()  # the chain closes them
        return chain


def _request_for_part(part: Part, request: WrapperRequest) -> WrapperRequest:
    folder = request.directory / part.folder
    return msgspec.structs.replace(
        request,
        directory=folder,
        simulation=folder / SIMULATION_FOLDER if request.simulation else None,
        files=tuple(Path(name) for name in part.files),
        params=_select_shapes(request.params, part.inputs),
        inputs=part.inputs,
        outputs=part.outputs,
    )


def _select_shapes(params: BackendParams, inputs: Sequence[TensorSpec]) -> BackendParams:
    names = {spec.name for spec in inputs}
    return params.replace(
        **{
            field: {name: shape for name, shape in getattr(params, field).items() if name in names}
            for field in ("input_shapes", "min_shapes", "max_shapes")
        }
    )
