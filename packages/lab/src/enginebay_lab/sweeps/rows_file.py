"""The result file of a sweep; each row is written as soon as its sweep cell has ended."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.authors.files import lock_file
from enginebay.errors import Hint, UsageError, argument, check_text
from enginebay_lab.journal import Journal, similar_file
from enginebay_lab.sweeps.sweep_rows import ROW_KIND, SweepRow

if TYPE_CHECKING:
    from collections.abc import Callable

#: The file's name in a sweep's folder.
ROWS_FILE = "rows.jsonl"


class RowsFile(Journal):
    """The result file of a sweep: a row on each line. A lock prevents a second writer.

    Args:
        path: The file; the parent folder is made if it does not exist.
        resume: Continue with the rows in the file. A row with a fault (a machine failure) is
            removed, so that its cell (one model, backend and precision) is run again; all other
            rows stay, including those of other sweeps.
        is_stale: A function that is called with each row without a fault, and returns true if the
            row must be removed too.

    Attributes:
        rows: The rows in the file, by the keys of their cells.

    Raises:
        UsageError: The file exists and ``resume`` is False, another sweep writes to the file, or a
            line of the file is not a row.
        EnginebayError: The disk is full or read-only.
        OSError: The file cannot be written for another reason.
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
            _lock_rows(path, cleanup)
            if resume:
                self._remove_stale_rows(path, is_stale)
            text = "add {} to continue the sweep, or name a different folder"
            hint = Hint(text, argument("resume", True))
            self.open(resume=resume, hint=hint)
            self._unlock = cleanup.pop_all()

    def append(self, row: SweepRow) -> None:
        """Write a row; do nothing if the file already has a row with the same key.

        Raises:
            EnginebayError: The disk is full or read-only; earlier rows stay.
            OSError: The file cannot be written for another reason.
        """
        if row.key not in self.rows:
            super().append(row)
            self.rows[row.key] = row

    def close(self) -> None:
        """Release the lock, so that other sweeps may write to the file."""
        self._unlock.close()

    def __enter__(self) -> RowsFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _remove_stale_rows(self, path: Path, is_stale: Callable[[SweepRow], bool]) -> None:
        lines = self.read(SweepRow)
        # Lines are written back unchanged: a later Enginebay may have added fields.
        last = {row.key: (line, row) for line, row in lines if not row.fault}
        valid = {key: (line, row) for key, (line, row) in last.items() if not is_stale(row)}
        self.rows = {key: row for key, (_, row) in valid.items()}
        data = b"".join(line + b"\n" for line, _ in valid.values())
        if path.exists() and path.read_bytes() != data:
            self.replace(data)


def _make_folder(folder: Path) -> None:
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    for path in (above, folder):
        if path.exists() and not path.is_dir():
            raise UsageError(f"'{path}' is not a folder", hint="name a different folder")
    folder.mkdir(parents=True, exist_ok=True)


def _lock_rows(path: Path, cleanup: ExitStack) -> None:
    try:
        # A file of its own next to the rows, which are replaced: a lock belongs to an inode.
        cleanup.enter_context(lock_file(path.with_name(f".{path.name}.lock"), wait=False))
    except BlockingIOError as err:
        raise UsageError(
            f"another sweep writes to '{path}'",
            hint="wait until that sweep has ended, or name a different folder",
        ) from err


def read_rows(path: str | Path) -> tuple[SweepRow, ...]:
    """Return the rows of a sweep, which may still be running.

    Args:
        path: The result file ``rows.jsonl``, or the sweep's folder.

    Raises:
        UsageError: The file does not exist, contains no rows, or contains rows of another version.
        OSError: The file cannot be read.
    """
    path = Path(path)
    check_text(str(path))
    path = path / ROWS_FILE if path.is_dir() else path
    if not path.exists():
        raise UsageError(
            f"'{path}' does not exist; expected the {ROWS_FILE} of a sweep",
            hint=similar_file(path),
        )
    lines = Journal(path, ROW_KIND).read(SweepRow)
    rows = {row.key: row for _, row in lines}
    if not rows:
        raise UsageError(f"'{path}' contains no rows yet; expected the {ROWS_FILE} of a sweep")
    return tuple(rows.values())
