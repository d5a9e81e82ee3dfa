"""An evaluation on a Dask scheduler and on a pool while a worker is killed."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import EnginebayError
from enginebay_lab.evaluation.shards import SHARD_ITEMS
from enginebay_lab.executors.dask import dask_executor

from .processes import Cluster

pytestmark = pytest.mark.process  # the tests kill workers by process id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

NET = """\
import torch


def build():
    torch.manual_seed(0)
    return torch.nn.Linear(16, 8).eval(), torch.zeros(1, 16)
"""

#: Records each item, and is slow enough for a kill in the middle of a shard.
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
        with open(f"seen-{os.getppid()}-{os.getpid()}", "a") as file:
            file.write("x")
        time.sleep(0.002)

    def merge_state(self, state):
        for name in state:
            self.metric_state[name] += state[name]

    def compute(self):
        assert self.metric_state["count"] == 384
        return self.metric_state["sum"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, its artifact, and 384 items."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "own.py").write_text(METRIC)
    rng = np.random.default_rng(0)
    target = rng.normal(size=(384, 1, 8)) * 10.0 ** rng.integers(-6, 7, (384, 1, 8))
    x = rng.normal(size=(384, 1, 16)).astype(np.float32)
    np.savez("data.npz", input=x, target=target.astype(np.float32))
    eb.deploy(
        "net.py:build",
        backend="onnxruntime",
        work_dir="one",
        export=eb.ExportOptions(exporter="torchscript"),
        verify=eb.VerifyOptions(probes=0),
    )
    return tmp_path


def evaluate(output: str, executor: Executor | None = None, model: str | None = None) -> Any:
    metrics = ["own.py:Slow", "mean-absolute-error", *(["cosine"] if model else [])]
    return lab.evaluate(
        *("one", "data.npz", metrics),
        model=model,
        output=output,
        resume=True,
        executor=executor,
    )


def seen(folder: Path) -> int:
    """Count the updates of the metric: by the artifact, and by PyTorch if there is a model."""
    return sum(path.stat().st_size for path in folder.glob("seen-*"))


@contextmanager
def killed(folder: Path, pids: Callable[[], Iterable[int]]) -> Iterator[None]:
    """Kill a process in the middle of a shard."""

    over = threading.Event()

    def in_the_middle() -> Iterator[int]:
        for notes in folder.glob("seen-*"):  # a worker, or its child that runs the user's metric
            whole, more = divmod(notes.stat().st_size, SHARD_ITEMS)
            if whole and 20 < more < 50:
                yield from set(pids()) & {int(pid) for pid in notes.name.split("-")[1:]}

    def kill() -> None:
        while not over.wait(0.01):
            if pid := next(in_the_middle(), None):
                os.kill(pid, signal.SIGKILL)
                over.set()

    thread = threading.Thread(target=kill)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.slow
def test_killed_worker_loses_and_repeats_no_item(folder: Path) -> None:
    with (
        Cluster(folder / "cluster", 2) as cluster,
        dask_executor(cluster.address) as executor,
        killed(folder, lambda: [worker.pid for worker in cluster.workers]),
    ):
        parts = evaluate("rows.jsonl", executor, "net.py:build")
    before = seen(folder)
    assert before > 2 * 384, "a second worker repeats the shard of the killed worker"
    assert parts == evaluate("whole.jsonl", model="net.py:build")
    assert seen(folder) == before + 2 * 384
    assert [row.count for row in parts.rows] == [384] * 3


def test_broken_pool_resumes_after_its_finished_items(folder: Path) -> None:
    spawned = get_context("spawn")
    with (
        ProcessPoolExecutor(2, mp_context=spawned) as pool,
        killed(folder, lambda: list(pool._processes)),
        pytest.raises(EnginebayError) as caught,
    ):
        evaluate("rows.jsonl", pool)
    assert str(caught.value).startswith("items ")
    assert " of 'data.npz' were not evaluated" in str(caught.value)
    assert "BrokenProcessPool" in str(caught.value)
    before = seen(folder)
    with ProcessPoolExecutor(1, mp_context=spawned) as pool:
        parts = evaluate("rows.jsonl", pool)
    assert seen(folder) - before < 384, "finished items are not evaluated again"
    assert parts == evaluate("whole.jsonl")
