"""A sweep on a Dask scheduler while a worker is killed and another is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .__main__ import disturbed, holds
from .processes import Cluster

if TYPE_CHECKING:
    from pathlib import Path


NET = """
import torch


def small():
    return torch.nn.Linear(4, 2), torch.ones(1, 4)


def large():
    return torch.nn.Conv2d(3, 4, 3), torch.ones(1, 3, 8, 8)
"""


@pytest.mark.slow
def test_every_cell_has_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, soon: int) -> None:
    (tmp_path / "net.py").write_text(NET)
    matrix = {
        "models": [f"{tmp_path}/net.py:small", f"{tmp_path}/net.py:large"],
        "backends": ["onnxruntime"],
        "precisions": ["fp32", "fp16"],
        "params": {"intra_op_threads": [1, 2]},
    }
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with Cluster(tmp_path / "dask", 3, ttl=5 * soon) as cluster:
        rows = disturbed(cluster, matrix, tmp_path / "sweep", after=2)
    assert [row.verdict for row in rows] == ["verified"] * 8
    assert holds(rows, 8, matrix, tmp_path / "sweep")
