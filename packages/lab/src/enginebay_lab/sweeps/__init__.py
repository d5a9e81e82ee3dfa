"""Sweeps: many models on many backends, each cell a task for any executor.

A cell is plain data and its row is, too; what happens to a worker is a row, and no end of the
sweep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.sweeps.arrival import arrived
    from enginebay.sweeps.baseline import VERDICTS, regressions
    from enginebay.sweeps.cell_task import run_cell
    from enginebay.sweeps.cells import Cell
    from enginebay.sweeps.matrix import read_cells
    from enginebay.sweeps.rows import Sweep, SweepRow
    from enginebay.sweeps.rows_file import ROWS_FILE, RowsFile, read_rows
    from enginebay.sweeps.run_sweep import sweep
    from enginebay.sweeps.sending import attempts, job_of

__all__ = [
    "ROWS_FILE",
    "VERDICTS",
    "Cell",
    "RowsFile",
    "Sweep",
    "SweepRow",
    "arrived",
    "attempts",
    "job_of",
    "read_cells",
    "read_rows",
    "regressions",
    "run_cell",
    "sweep",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Cell": "sweeps.cells",
        "ROWS_FILE": "sweeps.rows_file",
        "RowsFile": "sweeps.rows_file",
        "Sweep": "sweeps.rows",
        "SweepRow": "sweeps.rows",
        "VERDICTS": "sweeps.baseline",
        "arrived": "sweeps.arrival",
        "attempts": "sweeps.sending",
        "job_of": "sweeps.sending",
        "read_cells": "sweeps.matrix",
        "read_rows": "sweeps.rows_file",
        "regressions": "sweeps.baseline",
        "run_cell": "sweeps.cell_task",
        "sweep": "sweeps.run_sweep",
    },
)
