"""A folder with models, and the files of sweeps in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from enginebay_lab.sweeps.cells import Cell
from enginebay_lab.sweeps.read_cells import read_cells

Read = Callable[..., list[Cell]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two models; loopback is the only backend that can be used here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "loopback")
    Path("net.py").write_text("import missing_everywhere\ndef build(): ...\n")
    Path("tiny.onnx").write_bytes(b"never read")
    Path("items.npz").write_bytes(b"never read")
    return tmp_path


@pytest.fixture
def sweep(here: Path, loopback: str) -> Read:
    """Writes a file and reads its cells."""

    def read(text: str, file: str = "sweep.toml") -> list[Cell]:
        path = here / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(text))
        return read_cells(path.relative_to(here))

    return read
