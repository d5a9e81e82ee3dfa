"""Each cell runs in a process of its own: what a model does to Python, no other cell notices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import enginebay as eb
import enginebay_lab as lab
from enginebay_lab.executors.local import local_executor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay_lab.sweeps.sweep_rows import SweepRow

MODELS = {
    "patches.py": """
import os, threading, time, torch

threading.Thread(target=time.sleep, args=(600,)).start()
os.chdir("/")
torch.nn.functional.relu = lambda x, inplace=False: x * 0
torch.Tensor.exp = lambda self: self
torch.nn.Linear.forward = lambda self, x: x[..., :3]
torch.set_default_dtype(torch.float64)

def build():
    return torch.nn.Linear(4, 3), torch.ones(1, 4)
""",
    "net.py": """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return torch.nn.functional.relu(self.linear(x)).exp()

def build():
    return Net(), torch.ones(1, 4)
""",
    "once.py": """
import torch

library = torch.library.Library("enginebay_once", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")

class Twice(torch.nn.Module):
    def forward(self, x):
        return torch.ops.enginebay_once.twice(x)

def build():
    return Twice(), torch.ones(1)
""",
    "segfault.py": """
def build():
    import ctypes
    ctypes.string_at(0)
""",
    "exits.py": """
def build():
    import os
    os._exit(0)
""",
}
#: A model in each of two folders, with a module of the same name.
LAYERED = """
import torch
from layers.scale import FACTOR

class Net(torch.nn.Module):
    def forward(self, x):
        return x * FACTOR

def build():
    return Net(), torch.ones(1, dtype=torch.float32)
"""


@pytest.fixture(scope="module")
def rows(loopback: str, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, SweepRow]:
    """Sweep all models in one worker, some twice; return the last row of each."""
    folder = tmp_path_factory.mktemp("models")
    for name, text in MODELS.items():
        (folder / name).write_text(text)
    for name, factor in (("a", 1), ("b", 2)):
        (folder / name / "layers").mkdir(parents=True)
        (folder / name / "net.py").write_text(LAYERED)
        (folder / name / "layers/scale.py").write_text(f"FACTOR = {factor}")
    files = ["patches.py", "a/net.py", "b/net.py", "once.py", "once.py", "segfault.py", "exits.py"]
    files += ["net.py"]
    cells = [
        lab.Cell(model=f"{file}:build", backend=loopback, probes=0, rtol=rtol, folder=str(folder))
        for rtol, file in enumerate(files, 1)  # a tolerance of its own, so that each cell runs
    ]
    with pytest.MonkeyPatch.context() as patch, local_executor(workers=1) as executor:
        patch.syspath_prepend(folder)  # as for a script in this folder
        swept = lab.sweep(cells, executor, output=folder / "swept")
    return dict(zip(files, swept.rows, strict=True))


@pytest.mark.parametrize("file", ["net.py", "a/net.py", "b/net.py", "once.py"])
def test_a_model_is_verified_whatever_earlier_models_changed(
    rows: Mapping[str, SweepRow], file: str
) -> None:
    assert (rows[file].verdict, rows[file].reason) == ("verified", "")


@pytest.mark.parametrize(("folder", "factor"), [("a", 1), ("b", 2)])
def test_each_model_imports_the_modules_of_its_own_folder(
    rows: Mapping[str, SweepRow], folder: str, factor: int
) -> None:
    artifact = rows[f"{folder}/net.py"].artifact
    assert artifact
    with eb.load(artifact) as loaded:
        (found,) = loaded({"x": np.ones(1, np.float32)}).values()
    assert found == factor


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("segfault.py", "its process ended with SIGSEGV"),
        ("exits.py", "its process ended with exit code 0"),
    ],
)
def test_a_crash_loses_only_its_own_cell(
    rows: Mapping[str, SweepRow], file: str, reason: str
) -> None:
    row = rows[file]
    assert (row.verdict, row.fault, row.reason) == ("lost", "crashed", reason)


def test_a_thread_that_never_ends_does_not_delay_the_next_cell(
    rows: Mapping[str, SweepRow],
) -> None:
    assert rows["patches.py"].verdict == "verified"
    assert rows["a/net.py"].verdict == "verified"


def test_no_file_of_a_cell_is_left_in_the_output(rows: Mapping[str, SweepRow]) -> None:
    artifacts = Path(rows["net.py"].artifact or "").parent
    kept = {row.artifact for row in rows.values() if row.artifact}
    assert kept < {str(path) for path in artifacts.iterdir()}
    assert not list(artifacts.glob(".*"))
