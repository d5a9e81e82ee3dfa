"""The speed of a cell's artifact: one cell at a time on each machine."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import EnginebayError
from enginebay_lab.measurement.benchmark_artifact import benchmark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay_lab.sweeps.sweep_rows import SweepRow

#: One for the machine: TMPDIR may be another one for each job of a cluster.
_LOCK = Path("/tmp/enginebay-measuring.lock")  # noqa: S108  # empty, and for all users


def measured(row: SweepRow, seconds: float, timeout: float) -> SweepRow:
    """Return the row with the speed of its artifact, or a note on why it has none."""
    if not seconds or row.artifact is None:
        return row
    try:
        with _alone():
            found = benchmark(row.artifact, seconds=seconds, timeout=timeout)
    except EnginebayError as err:
        # The folder is that of an attempt, and has another name by the time that it is read.
        reason = str(err).replace(f"'{Path(row.artifact).resolve()}'", "it")
        note = f"the artifact could not be measured: {reason}"
        return msgspec.structs.replace(row, notes=(*row.notes, note))
    return msgspec.structs.replace(
        row, speed=found.rows[0], machine=found.machine, notes=(*row.notes, *found.notes)
    )


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the machine's lock, so that no other cell of any sweep is measured meanwhile."""
    import fcntl

    with suppress(OSError):  # another user's, which may be read
        _LOCK.touch()
    try:
        descriptor = os.open(_LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:  # there is no such folder: the figures are as good as they are
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
