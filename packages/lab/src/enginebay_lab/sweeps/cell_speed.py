"""Measures the speed of an artifact; a lock prevents simultaneous measurements on a machine."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors.files import lock_file
from enginebay.errors import EnginebayError
from enginebay_lab.measurement.benchmark_artifact import benchmark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay_lab.sweeps.sweep_rows import SweepRow

#: One lock for the whole machine. Not in TMPDIR, which a cluster may set per job.
_LOCK = Path("/tmp/enginebay-measuring.lock")  # noqa: S108  # empty, and for all users


def measure_speed(row: SweepRow, duration: float, timeout: float) -> SweepRow:
    """Measure the speed of a row's artifact, and return the row with the speed or an error note."""
    if not duration or row.artifact is None:
        return row
    try:
        with _lock_machine():
            result = benchmark(row.artifact, duration=duration, timeout=timeout)
    except EnginebayError as err:
        # Without the folder's name: the client renames it before anyone reads the note.
        reason = str(err).replace(f"'{Path(row.artifact).resolve()}'", "it")
        note = f"the artifact could not be measured: {reason}"
        return msgspec.structs.replace(row, notes=(*row.notes, note))
    return msgspec.structs.replace(
        row, speed=result.rows[0], machine=result.machine, notes=(*row.notes, *result.notes)
    )


@contextmanager
def _lock_machine() -> Iterator[None]:
    """In a ``with`` block, hold this machine's lock, so that sweeps measure one after another."""
    with ExitStack() as held:
        with suppress(OSError):  # no such folder: measure without a lock
            held.enter_context(lock_file(_LOCK))
        yield
