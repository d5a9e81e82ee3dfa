"""An evaluation on a Dask scheduler, while one of its workers is killed."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import enginebay as eb
from enginebay.executors import dask_executor

from .processes import Cluster

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NET = """\
import torch


def build():
    torch.manual_seed(0)
    return torch.nn.Linear(16, 8).eval(), torch.zeros(1, 16)
"""

#: Notes each item, and takes so long that a worker can be killed in the middle of a shard.
METRIC = """\
import os, time


class Slow:
    higher_is_better = None

    def __init__(self):
        self.reset()

    def reset(self):
        self.metric_state = {"sum": 0.0, "count": 0}

    def update(self, outputs, target):
        self.merge_state({"sum": float(abs(outputs - target).sum()), "count": 1})
        with open(f"seen-{os.getpid()}", "a") as file:
            file.write("x")
        time.sleep(0.002)

    def merge_state(self, state):
        for name in state:
            self.metric_state[name] += state[name]

    def compute(self):
        assert self.metric_state["count"] == 384
        return self.metric_state["sum"]
"""


def test_a_killed_worker_loses_no_item_and_doubles_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "own.py").write_text(METRIC)
    rng = np.random.default_rng(0)
    target = rng.normal(size=(384, 1, 8)) * 10.0 ** rng.integers(-6, 7, (384, 1, 8))
    x = rng.normal(size=(384, 1, 16)).astype(np.float32)
    np.savez("data.npz", input=x, target=target.astype(np.float32))
    eb.deploy(
        "net.py:build", backend="onnxruntime", work_dir="one", probes=0, exporter="torchscript"
    )
    metrics = ["own.py:Slow", "mean-absolute-error", "cosine"]
    given: Any = {"model": "net.py:build"}

    def seen() -> int:
        return sum(path.stat().st_size for path in tmp_path.glob("seen-*"))

    with Cluster(tmp_path / "cluster", 2) as cluster, dask_executor(cluster.address) as executor:

        def kill() -> None:
            while seen() < 2 * 150:  # PyTorch's outputs and the artifact's
                time.sleep(0.01)
            cluster.workers[0].send_signal(signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        found = eb.evaluate(
            "one", "data.npz", metrics, output="rows.jsonl", executor=executor, **given
        )
        thread.join()
    before = seen()
    assert before > 2 * 384, "the killed worker was in the middle of a shard, done again elsewhere"
    assert found == eb.evaluate("one", "data.npz", metrics, output="whole.jsonl", **given)
    assert seen() == before + 2 * 384
    assert [row.count for row in found.rows] == [384] * 3
