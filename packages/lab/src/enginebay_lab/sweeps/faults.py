"""Makes the rows of sweep cells that have no result because a machine failed, not the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import EnginebayError, Hint, disk_error, names_full_disk, one_line

if TYPE_CHECKING:
    from enginebay_lab.sweeps.sweep_rows import SweepRow


class CellLostError(EnginebayError):
    """A sweep cell (one model, backend and precision) cannot be run on this machine.

    Attributes:
        fault: The kind of machine failure; :class:`enginebay_lab.SweepRow` lists all kinds.
    """

    def __init__(self, fault: str, message: str, *, hint: str | Hint | None = None) -> None:
        super().__init__(message, hint=hint)
        self.fault = fault


def lost_row(row: SweepRow, fault: str, reason: str, hint: str = "") -> SweepRow:
    """Return the row with the verdict ``lost``; ``--resume`` then runs the sweep cell again."""
    return msgspec.structs.replace(
        row, verdict="lost", fault=fault, reason=reason, hint=hint, artifact=None, digest=""
    )


def disk_fault_row(row: SweepRow, host: str, err: Exception) -> SweepRow:
    """Return the row with the verdict ``lost``, because a disk is full, read-only or broken."""
    reason = str(err) if isinstance(err, EnginebayError) else one_line(err)
    if isinstance(err, OSError):
        where = f"'{err.filename}'" if err.filename else "a file"
        reason = f"{where} cannot be written: {err.strerror or err}"
    hint = "free disk space, or make the folder writable, then sweep again with --resume"
    return lost_row(row, "disk", f"on {host}: {reason}", hint)


def is_disk_error(err: Exception) -> bool:
    """Return true for an error that a full or read-only disk caused."""
    return disk_error(err) is not None or names_full_disk(str(err))


def rename_artifact(row: SweepRow, artifact: str) -> SweepRow:
    """Return the row with a new artifact path; an empty path removes the artifact from the row."""
    # Without an artifact, the path would be a deleted folder of the worker.
    name = artifact or row.label
    speed = row.speed and msgspec.structs.replace(row.speed, name=name, artifact=artifact)
    metrics = tuple(msgspec.structs.replace(metric, artifact=name) for metric in row.metrics)
    return msgspec.structs.replace(row, artifact=artifact or None, speed=speed, metrics=metrics)
