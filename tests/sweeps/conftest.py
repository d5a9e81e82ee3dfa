"""A folder with models as the current folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.sweeps.cells import NET

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def net(tmp_path, monkeypatch) -> Path:
    """A file with models in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path
