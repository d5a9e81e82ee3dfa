"""The functions of a preview that are called in a child process, which imports little else."""

from __future__ import annotations

import pickle
from pathlib import Path  # noqa: TC003  # the arguments are decoded by their types

import enginebay as eb
from enginebay.authors.files import Draft, Obstacle  # noqa: TC001  # likewise
from enginebay.errors import EnginebayError
from enginebay.hooks import ConvertRequest
from enginebay_lab.obstacles.explanations import explain_lacking


def draft_in_child(names: list[str], pickled: Path, folder: Path) -> dict[str, Draft]:
    """Export the model for each backend.

    Args:
        names: The backends' names.
        pickled: The file with the model, its inputs and the caller's rewriters.
        folder: The folder for the exported files.
    """
    from enginebay.authors.files import draft_irs

    model, args, rewriters = pickle.loads(pickled.read_bytes())  # noqa: S301  # the parent wrote it
    return draft_irs(model, args, backends=names, rewriters=rewriters, folder=folder)


def list_engine_lacks(name: str, ir: eb.IRModel, folder: Path) -> list[Obstacle]:
    """Return the operators in an exported IR that the engine does not support.

    Args:
        name: The backend's name.
        ir: The exported IR.
        folder: The folder for a new folder of the engine.

    Raises:
        EnginebayError: The backend cannot list unsupported operators, or cannot read the IR.
    """
    backend = eb.get_backend(name)
    work_dir = folder / f"engine-{name}"
    work_dir.mkdir()
    request = ConvertRequest(ir=ir, params=backend.Params(), work_dir=work_dir)
    lacking = backend.unsupported_operators(request)
    if lacking is None:
        raise EnginebayError(f"backend '{name}' does not implement the hook unsupported_operators")
    return list(explain_lacking(ir, lacking))
