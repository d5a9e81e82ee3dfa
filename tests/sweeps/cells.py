"""Cells of tiny models, from the job to the row, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay_lab.sweeps.cell_task import run_cell
from enginebay_lab.sweeps.cells import Cell
from enginebay_lab.sweeps.job_builder import attempts_folder, build_job
from enginebay_lab.sweeps.worker_replies import receive_row

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay_lab.sweeps.sweep_rows import SweepRow

NET = """
import torch

def build():
    return torch.nn.Linear(4, 3), torch.ones(1, 4)

def large():
    return torch.nn.Linear(200, 200), torch.ones(1, 200)

def fail():
    raise RuntimeError("no weights")

def odd():
    raise ValueError("no file mod\\udce8le")

def crash():
    import ctypes
    ctypes.string_at(0)

def hang():
    import time
    time.sleep(600)

def fill():
    raise OSError(28, "No space left on device")
"""


def cell_of(model: str = "net.py:build", **more: Any) -> Cell:
    """A cell on ONNX Runtime."""
    return Cell(model=model, backend="onnxruntime", **more)


def swept(cell: Cell, output: Path | None = None) -> SweepRow:
    """Run a cell as a job and return its row."""
    if output is None:
        return receive_row(cell, run_cell(build_job(cell, None, "")), None)
    with attempts_folder(output) as token:
        return receive_row(cell, run_cell(build_job(cell, output, token)), output)


def reply_from_elsewhere(cell: Cell, output: Path, *gone: Path) -> bytes:
    """Run a cell that cannot access the output folder or some files."""
    with attempts_folder(output) as token:
        job = build_job(cell, output, token)
        hidden = {path: path.rename(path.with_name(f"hidden {path.name}")) for path in gone}
        aside = output.rename(output.with_name("aside"))
        try:
            return run_cell(job)
        finally:
            aside.rename(output)
            for path, other in hidden.items():
                other.rename(path)
