"""A folder with models as the current folder."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.sweeps.cells import NET

from enginebay_lab.sweeps import process_state

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def net(tmp_path, monkeypatch) -> Path:
    """A file with models in the current folder, as in a fresh process."""
    monkeypatch.setattr(process_state, "_cell_numbers", count())
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path
