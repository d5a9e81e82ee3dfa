"""A model in several parts: each converted and loaded by itself, run as one."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.artifact.manifest import Part
from enginebay.hooks import ConvertRequest

#: Where the graph of an engine that cannot run here is put, beside the engine's files.
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
    simulated: bool = False,
) -> tuple[Part, ...]:
    """Convert each model into a folder of its own below ``work_dir``.

    The folders are called ``part_0``, ``part_1`` and so on; each gets a folder for its graph where
    the engines cannot run here (``simulated``).

    Raises:
        ConversionError: As for :meth:`Backend.convert`.
    """
    parts = []
    for number, model in enumerate(models):
        folder = work_dir / f"part_{number}"
        folder.mkdir()
        request = ConvertRequest(
            ir=model,
            params=_own_shapes(params, model.inputs),
            work_dir=folder,
            progress=progress,
            simulation=simulation_folder(folder) if simulated else None,
        )
        files = backend.convert(request)
        names = tuple(file.as_posix() for file in files)
        parts.append(Part(folder.name, names, model.inputs, model.outputs))
    return tuple(parts)


def simulation_folder(directory: Path) -> Path:
    """Make the folder for the graph of an engine that cannot run here.

    Args:
        directory: Where the engine's files are.
    """
    folder = directory / SIMULATION_FOLDER
    folder.mkdir()
    return folder


def load_parts(
    load: Callable[[WrapperRequest], Wrapper], request: WrapperRequest, parts: Sequence[Part]
) -> Wrapper:
    """The wrapper of the whole model, which may be in one part: then ``parts`` is empty.

    Args:
        load: Loads one part: :meth:`Backend.load`.
        request: The request for the whole model.
        parts: The parts.

    Raises:
        ConversionError: As for :meth:`Backend.load`; the parts loaded before are closed.
        FallbackError: ``request.strict``, and a part's receipt lists a fallback.
    """
    if not parts:
        return load(request)
    from enginebay.inference import ChainedWrapper

    with ExitStack() as loaded:
        wrappers = [loaded.enter_context(load(_of(part, request))) for part in parts]
        chain = ChainedWrapper(wrappers, inputs=request.inputs, outputs=request.outputs)
        loaded.pop_all()
        return chain


def _of(part: Part, request: WrapperRequest) -> WrapperRequest:
    folder = request.directory / part.folder
    return msgspec.structs.replace(
        request,
        directory=folder,
        simulation=folder / SIMULATION_FOLDER if request.simulation else None,
        files=tuple(Path(name) for name in part.files),
        params=_own_shapes(request.params, part.inputs),
        inputs=part.inputs,
        outputs=part.outputs,
    )


def _own_shapes(params: BackendParams, inputs: Sequence[TensorSpec]) -> BackendParams:
    """The parameters without the shapes of inputs that other parts take."""
    own = {spec.name for spec in inputs}
    return params.replace(
        **{
            field: {name: shape for name, shape in getattr(params, field).items() if name in own}
            for field in ("input_shapes", "min_shapes", "max_shapes")
        }
    )
