"""Parts of a model that was cut: each is converted and loaded separately, and run as one."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.artifact.manifest import Part
from enginebay.hooks import ConvertRequest

#: The folder, next to the engine's files, for the graph of an engine that cannot run here.
SIMULATION_FOLDER = "simulation"

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay.backend import Backend
    from enginebay.hooks import WrapperRequest
    from enginebay.inference import Wrapper
    from enginebay.ir import IRModel
    from enginebay.params import BackendParams
    from enginebay.tensors import TensorSpec


def convert_parts(
    backend: Backend,
    models: Sequence[IRModel],
    params: BackendParams,
    work_dir: Path,
    progress: Callable[[str], None],
    *,
    simulate: bool = False,
) -> tuple[Part, ...]:
    """Convert each model into its own folder below ``work_dir``: ``part_0``, ``part_1`` and so on.

    Args:
        backend: The backend.
        models: The parts of the model.
        params: The backend's parameters for the whole model.
        work_dir: The parent of the new folders.
        progress: Called with the converter's progress.
        simulate: True if the engines cannot run here: each folder gets a folder for its graph.

    Raises:
        ConversionError: As for :meth:`Backend.convert`.
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
        files = backend.convert(request)
        names = tuple(file.as_posix() for file in files)
        parts.append(Part(folder.name, names, model.inputs, model.outputs))
    return tuple(parts)


def simulation_folder(directory: Path) -> Path:
    """Make the folder for the graph of an engine that cannot run here.

    Args:
        directory: The folder of the engine's files.
    """
    folder = directory / SIMULATION_FOLDER
    folder.mkdir()
    return folder


def load_parts(
    load: Callable[[WrapperRequest], Wrapper], request: WrapperRequest, parts: Sequence[Part]
) -> Wrapper:
    """Load the wrapper of the whole model.

    Args:
        load: Loads one part: :meth:`Backend.load`.
        request: The request for the whole model.
        parts: The parts; empty if the model was not cut.

    Raises:
        ConversionError: As for :meth:`Backend.load`; the parts loaded before are closed.
        FallbackError: ``request.strict``, and a part's receipt lists a fallback.
    """
    if not parts:
        return load(request)
    from enginebay.inference import ChainedWrapper

    with ExitStack() as loaded:
        wrappers = [loaded.enter_context(load(_request_for_part(part, request))) for part in parts]
        chain = ChainedWrapper(wrappers, inputs=request.inputs, outputs=request.outputs)
        loaded.pop_all()
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
    """Return the parameters with the shapes of these inputs only."""
    names = {spec.name for spec in inputs}
    return params.replace(
        **{
            field: {name: shape for name, shape in getattr(params, field).items() if name in names}
            for field in ("input_shapes", "min_shapes", "max_shapes")
        }
    )
