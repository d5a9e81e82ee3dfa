"""Converts a worker's reply into a row, and moves the artifact to its final folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors.artifacts import move_artifact
from enginebay.errors import (
    ArtifactError,
    ArtifactExistsError,
    EnginebayError,
    one_line,
)
from enginebay_lab.resources import host_name
from enginebay_lab.sweeps.faults import disk_fault_row, lost_row, rename_artifact
from enginebay_lab.sweeps.job_builder import ARTIFACTS_FOLDER, ATTEMPTS_FOLDER
from enginebay_lab.sweeps.sweep_rows import SweepRow

if TYPE_CHECKING:
    from enginebay_lab.sweeps.cells import Cell


#: The depth of an artifact below the attempts folder: ``SWEEP/KEY-RANDOM/NAME``.
_ATTEMPT_DEPTH = 3
#: Fields that describe the cell; their values in a reply are ignored. The precision is not among
#: them: if the cell has none, the worker reports the backend's default.
_CELL_FIELDS = ("key", "model", "backend", "params", "max_drop")
_RESUME_HINT = "sweep again with --resume"


def receive_row(cell: Cell, reply: bytes, output: Path | None) -> SweepRow:
    """Return the row in a worker's reply, after moving the artifact to its final folder.

    The final folder is ``OUTPUT/artifacts/MODEL-on-BACKEND-PRECISION-KEY``. The move is atomic, and
    replaces the artifact of an earlier run of the cell.

    Args:
        cell: The sweep cell (one model, backend and precision).
        reply: The result of :func:`~enginebay_lab.sweeps.cell_task.run_cell`; not trusted.
        output: The sweep's folder; None to delete artifacts.

    Returns:
        The row. Its fault is ``damaged`` if the reply is not a row, or the artifact differs from
        the one that the worker built, and ``disk`` if the artifact cannot be written here.
    """
    empty = SweepRow.of(cell, "lost")
    try:
        row = msgspec.structs.replace(
            msgspec.msgpack.decode(reply, type=SweepRow),
            **{name: getattr(empty, name) for name in _CELL_FIELDS},
        )
        # The rows file is JSON, which cannot hold every MessagePack value.
        msgspec.json.decode(msgspec.json.encode(row), type=SweepRow)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as err:
        reason = f"the worker's reply is not a row: {one_line(err)}"
        return lost_row(empty, "damaged", reason, _RESUME_HINT)
    if output is None or row.artifact is None:
        return rename_artifact(row, "")
    built = (output / ARTIFACTS_FOLDER / ATTEMPTS_FOLDER).resolve()
    target = output / ARTIFACTS_FOLDER / artifact_folder_name(cell)
    try:
        attempt = _locate_attempt(Path(row.artifact), built, cell.key)
        artifact = move_artifact(attempt, target, row.digest)
        shutil.rmtree(attempt.parent, ignore_errors=True)
    except (EnginebayError, OSError, ValueError) as err:  # ValueError: a null byte in the name
        return _unmoved_row(row, err)
    return rename_artifact(row, str(artifact.path))


def artifact_folder_name(cell: Cell) -> str:
    """Return a readable and unique name for the folder of a sweep cell's artifact.

    Example:
        >>> from enginebay_lab import Cell
        >>> artifact_folder_name(Cell(model="nets/a.py:build", backend="ncnn", precision="fp16"))
        'a.py-build-on-ncnn-fp16-f2e1f609438416f2'
    """
    model = cell.model.rsplit("/", 1)[-1]
    plain = re.sub(r"[^\w.]+", "-", f"{model} on {cell.backend} {cell.precision}").strip("-.")
    # File names have at most 255 bytes; a letter may have four.
    return f"{plain[:50]}-{cell.key}"


def _locate_attempt(path: Path, built: Path, key: str) -> Path:
    """Check that an artifact is at ``built/SWEEP/KEY-RANDOM/NAME``; return its absolute path."""
    attempt = path.resolve()
    parts = attempt.relative_to(built).parts if attempt.is_relative_to(built) else ()
    if len(parts) != _ATTEMPT_DEPTH or not parts[1].startswith(f"{key}-"):
        raise ArtifactError(
            f"the artifact is at '{path}', expected a folder '{key}-…' in '{built}'"
        )
    return attempt


def _unmoved_row(row: SweepRow, err: EnginebayError | OSError | ValueError) -> SweepRow:
    """Return the row with the fault ``damaged`` or ``disk``: its artifact could not be moved."""
    if isinstance(err, ValueError):
        return lost_row(row, "damaged", one_line(err), _RESUME_HINT)
    if isinstance(err, ArtifactError) and not isinstance(err.__cause__, OSError):
        return lost_row(row, "damaged", str(err), _RESUME_HINT)
    if isinstance(err, ArtifactExistsError):
        hint = f"move the folder away, then {_RESUME_HINT}"
        return lost_row(row, "disk", f"on {host_name()}: {err}", hint)
    return disk_fault_row(row, host_name(), err)
