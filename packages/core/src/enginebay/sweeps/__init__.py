"""Sweeps: many models on many backends, each cell a task for any executor.

A cell is plain data and its row is, too; what happens to a worker is a row, and no end of the
sweep.
"""

from __future__ import annotations

from enginebay.sweeps.baseline import regressions
from enginebay.sweeps.cells import Cell
from enginebay.sweeps.matrix import read_cells
from enginebay.sweeps.rows import Sweep, SweepRow
from enginebay.sweeps.rows_file import ROWS_FILE, RowsFile, read_rows

__all__ = ["Cell", "ROWS_FILE", "RowsFile", "Sweep", "SweepRow", "read_cells", "read_rows", "regressions"]
