"""Why a cell has no result, where the machine is to blame and not the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import EnginebayError, disk_error, names_full_disk, one_line

if TYPE_CHECKING:
    from enginebay_lab.sweeps.sweep_rows import SweepRow


class CellLostError(EnginebayError):
    """A cell cannot be run on this machine, or its result did not arrive.

    Attributes:
        fault: The kind, as :class:`enginebay_lab.SweepRow` lists them.
    """

    def __init__(self, fault: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.fault = fault


def lost(row: SweepRow, fault: str, reason: str, hint: str = "") -> SweepRow:
    """Return the row of a cell that has no result; ``--resume`` runs it again."""
    return msgspec.structs.replace(
        row, verdict="lost", fault=fault, reason=reason, hint=hint, artifact=None, digest=""
    )


def lost_to_disk(row: SweepRow, host: str, err: Exception) -> SweepRow:
    """Return the row of a cell that met a full or read-only disk, or one that does not work."""
    reason = str(err) if isinstance(err, EnginebayError) else one_line(err)
    if isinstance(err, OSError):
        where = f"'{err.filename}'" if err.filename else "a file"
        reason = f"{where} cannot be written: {err.strerror or err}"
    hint = "free some space there, or let it be written, then sweep again with --resume"
    return lost(row, "disk", f"on {host}: {reason}", hint)


def is_disk_error(err: Exception) -> bool:
    """True if a full or read-only disk led to an error."""
    return disk_error(err) is not None or names_full_disk(str(err))


def named(row: SweepRow, artifact: str) -> SweepRow:
    """Return the row with another name of its artifact; empty for an artifact that is gone."""
    name = artifact or row.label
    speed = row.speed and msgspec.structs.replace(row.speed, name=name, artifact=artifact)
    metrics = tuple(msgspec.structs.replace(each, artifact=name) for each in row.metrics)
    return msgspec.structs.replace(row, artifact=artifact or None, speed=speed, metrics=metrics)
