"""The file with the rows of a sweep: each is on the disk as soon as its cell has ended."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.errors import UsageError, check_text
from enginebay_lab.journal import Journal, similar_file
from enginebay_lab.sweeps.sweep_rows import ROW_KIND, SweepRow

if TYPE_CHECKING:
    from collections.abc import Callable

#: The file's name in a sweep's folder.
ROWS_FILE = "rows.jsonl"
#: The open files by which this process holds locks.
_locks: set[int] = set()


class RowsFile(Journal):
    """The rows of a sweep's cells, one line each, for one writer at a time.

    Args:
        path: The file; its folder is made where it is not there.
        resume: Go on with what is there. Rows with a fault are removed from the file, so that
            their cells are run again; all others stay, those of other sweeps' cells too.
        is_stale: Returns true for a row whose cell is to be run again, too.

    Attributes:
        rows: The rows in the file, by the keys of their cells.

    Raises:
        UsageError: The file is there and ``resume`` is not set, another sweep writes to it, or it
            holds something else.
        EnginebayError: The disk is full or read-only.
        OSError: It cannot be written for another reason.
    """

    def __init__(
        self,
        path: Path,
        *,
        resume: bool,
        is_stale: Callable[[SweepRow], bool] = lambda _: False,
    ) -> None:
        super().__init__(path, ROW_KIND)
        self.rows: dict[str, SweepRow] = {}
        _make_folder(path.parent)
        with ExitStack() as cleanup:
            _lock(path, cleanup)
            if resume:
                self._clean(path, is_stale)
            hint = "go on with it with --resume, or name another folder"
            self.open(resume=resume, hint=hint)
            self._unlock = cleanup.pop_all()

    def append(self, row: SweepRow) -> None:
        """Write a row, unless its cell has one.

        Raises:
            EnginebayError: The disk is full or read-only; the rows before stay.
            OSError: It cannot be written for another reason.
        """
        if row.key not in self.rows:
            super().append(row)
            self.rows[row.key] = row

    def close(self) -> None:
        """Let other sweeps write to the file."""
        self._unlock.close()

    def __enter__(self) -> RowsFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _clean(self, path: Path, is_stale: Callable[[SweepRow], bool]) -> None:
        """Keep the last row of each cell that has a result, and nothing else."""
        found = self.read(SweepRow)
        last = {row.key: (line, row) for line, row in found if not row.fault}
        kept = {key: (line, row) for key, (line, row) in last.items() if not is_stale(row)}
        self.rows = {key: row for key, (_, row) in kept.items()}
        data = b"".join(line + b"\n" for line, _ in kept.values())
        if path.exists() and path.read_bytes() != data:
            self.replace(data)


def _make_folder(folder: Path) -> None:
    above = next(each for each in folder.absolute().parents if each.exists())
    for each in (above, folder):
        if each.exists() and not each.is_dir():
            raise UsageError(f"'{each}' is no folder", hint="name another one")
    folder.mkdir(parents=True, exist_ok=True)


def _lock(path: Path, cleanup: ExitStack) -> None:
    """Lock a file beside the rows, which are replaced; the lock ends with its process at last."""
    import fcntl

    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    _locks.add(descriptor)
    cleanup.callback(_unlock, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        raise UsageError(
            f"another sweep writes to '{path}'", hint="wait for its end, or name another folder"
        ) from err
    except OSError:
        return  # this file system has no locks


def _unlock(*descriptors: int) -> None:
    for descriptor in _locks.intersection(descriptors):
        _locks.remove(descriptor)
        os.close(descriptor)


if hasattr(os, "register_at_fork"):  # not on Windows, where importing this must not fail
    # The locks are the parent's: workers that a pool forks may live longer than it does.
    os.register_at_fork(after_in_child=lambda: _unlock(*_locks))


def read_rows(path: str | Path) -> tuple[SweepRow, ...]:
    """Read the rows of a sweep, also of one that still runs.

    Args:
        path: The file, or the sweep's folder.

    Raises:
        UsageError: It is not there, holds no row, something else, or rows of another version.
        OSError: It cannot be read.
    """
    path = Path(path)
    check_text(str(path))
    path = path / ROWS_FILE if path.is_dir() else path
    if not path.exists():
        raise UsageError(
            f"'{path}' does not exist; wanted the {ROWS_FILE} of a sweep",
            hint=similar_file(path),
        )
    found = Journal(path, ROW_KIND).read(SweepRow)
    rows = {row.key: row for _, row in found}
    if not rows:
        raise UsageError(f"'{path}' holds no row yet; wanted the {ROWS_FILE} of a sweep")
    return tuple(rows.values())
