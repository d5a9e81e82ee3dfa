"""The file that everything measured is written to at once: JSON, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay_lab.files import JsonLines

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay_lab.measurement.machine import Machine
    from enginebay_lab.measurement.rows import BenchmarkRow, Window

#: The version of a line; it grows when a field is removed or changes its meaning.
SCHEMA = 1


class Journal:
    """A file with a line for the machine, one for each window as it ends, and one for each row.

    Args:
        path: The file, which must not exist; None to write nothing.

    Raises:
        UsageError: It exists.
        OSError: It cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._lines = None if path is None else JsonLines(path, SCHEMA)
        if self._lines is not None:
            self._lines.open(resume=False, hint="name another file")

    def machine(self, machine: Machine) -> None:
        """Write what is measured on."""
        self._write({"machine": machine})

    def window(self, name: str, batch: int, threads: int, window: Window) -> None:
        """Write a window of a row."""
        self._write({"name": name, "batch": batch, "threads": threads, "window": window})

    def row(self, row: BenchmarkRow) -> None:
        """Write a row that is complete."""
        self._write({"row": row})

    def _write(self, line: dict[str, Any]) -> None:
        if self._lines is not None:
            self._lines.append(line)
