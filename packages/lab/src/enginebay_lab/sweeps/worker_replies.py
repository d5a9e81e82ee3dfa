"""From a worker's reply to the row of a sweep, with its artifact under its own name."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors import move_artifact
from enginebay.errors import ArtifactError, ArtifactExistsError, EnginebayError, one_line
from enginebay_lab.resources import host_name
from enginebay_lab.sweeps.faults import lost, lost_to_disk, named
from enginebay_lab.sweeps.job_builder import ARTIFACTS, ATTEMPTS
from enginebay_lab.sweeps.sweep_rows import SweepRow

if TYPE_CHECKING:
    from enginebay_lab.sweeps.cells import Cell


#: The parts of an artifact's path below the folder where artifacts are built.
_DEPTH = 3
#: Fields of a row that say what was asked for: what a reply has in them counts for nothing.
_ASKED = ("key", "model", "backend", "params", "max_drop")


def arrived(cell: Cell, reply: bytes, output: Path | None) -> SweepRow:
    """Return the row of a cell, after its artifact was checked and has come to its place.

    The artifact is at ``OUTPUT/artifacts/MODEL-on-BACKEND-PRECISION-KEY``: whole, or not at all.
    One that an earlier run of the cell left there is replaced.

    Args:
        cell: The cell.
        reply: What :func:`~enginebay_lab.sweeps.cell_task.run_cell` returned, or a stranger's data.
        output: The sweep's folder; None where artifacts are not kept.

    Returns:
        The row. The fault is ``damaged`` where the reply is none, or the artifact is not the one
        that was made, and ``disk`` where it cannot be written here.
    """
    asked = SweepRow.of(cell, "lost")
    try:
        row = msgspec.structs.replace(
            msgspec.msgpack.decode(reply, type=SweepRow),
            **{name: getattr(asked, name) for name in _ASKED},
        )
        msgspec.json.decode(msgspec.json.encode(row), type=SweepRow)  # as its file will have it
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as err:
        reason = f"its worker sent no row: {one_line(err)}"
        return lost(asked, "damaged", reason, "sweep again with --resume")
    if output is None or row.artifact is None:
        return named(row, "")
    built = (output / ARTIFACTS / ATTEMPTS).resolve()
    try:
        attempt = _seen(Path(row.artifact), built, cell.key)
        artifact = move_artifact(attempt, output / ARTIFACTS / folder_name(cell), row.digest)
        shutil.rmtree(attempt.parent, ignore_errors=True)
    except (EnginebayError, OSError, ValueError) as err:  # its name may hold a null
        return _unplaced(row, err)
    return named(row, str(artifact.path))


def folder_name(cell: Cell) -> str:
    """Return the name of a cell's artifact: readable, and no other cell's.

    Example:
        >>> from enginebay_lab import Cell
        >>> folder_name(Cell(model="nets/a.py:build", backend="ncnn", precision="fp16"))
        'a.py-build-on-ncnn-fp16-f2e1f609438416f2'
    """
    model = cell.model.rsplit("/", 1)[-1]
    plain = re.sub(r"[^\w.]+", "-", f"{model} on {cell.backend} {cell.precision}").strip("-.")
    return f"{plain[:50]}-{cell.key}"  # a name has at most 255 bytes, and a letter up to four


def _seen(named: Path, built: Path, key: str) -> Path:
    """The artifact that a worker built where it is seen from here: ``SWEEP/KEY-RANDOM/NAME``."""
    attempt = named.resolve()
    parts = attempt.relative_to(built).parts if attempt.is_relative_to(built) else ()
    if len(parts) != _DEPTH or not parts[1].startswith(f"{key}-"):
        raise ArtifactError(f"'{named}' is not where the cell was built, below '{built}'")
    return attempt


def _unplaced(row: SweepRow, err: EnginebayError | OSError | ValueError) -> SweepRow:
    """The row of an artifact that did not come to its place."""
    if isinstance(err, ValueError):
        return lost(row, "damaged", one_line(err), "sweep again with --resume")
    if isinstance(err, ArtifactError) and not isinstance(err.__cause__, OSError):
        return lost(row, "damaged", str(err), "sweep again with --resume")
    if isinstance(err, ArtifactExistsError):
        hint = "move it away, then sweep again with --resume"
        return lost(row, "disk", f"on {host_name()}: {err}", hint)
    return lost_to_disk(row, host_name(), err)
