"""``lab.sweep`` on a Dask scheduler against the same deployments submitted to it by hand."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.cluster.processes import Cluster

import enginebay as eb
import enginebay_lab as lab
from benchmarks.table import Row
from benchmarks.turns import paired
from enginebay_lab.executors.dask import dask_executor
from enginebay_lab.executors.task_runner import run_tasks
from enginebay_lab.executors.tasks import ExecutorTask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

#: A deployment of more than five seconds, and their number per turn.
MODEL, CELLS = "benchmarks.models:resnet50", 2
TURNS = 3
#: Tasks per turn that do nothing.
EMPTY = 200


def run() -> Iterator[Row]:
    """Measure a cell, with its checks, digests and row, and a task that does nothing."""
    with TemporaryDirectory(prefix="enginebay-benchmark-") as name:
        folder = Path(name)
        with Cluster(folder / "dask", 1) as cluster, dask_executor(cluster.address) as executor:
            sweeps = [
                (_ours(executor, folder, turn), _by_hand(executor, folder, turn))
                for turn in range(1 + TURNS)
            ]
            tasks = [(_tasks(executor), _calls(executor)) for _ in range(1 + TURNS)]
            alone = [_small(executor, folder, f"alone-{turn}") for turn in range(1 + TURNS)]
            cluster.add_worker()
            both = [_small(executor, folder, f"both-{turn}") for turn in range(1 + TURNS)]
    yield Row.of("sweep", "a cell, ResNet-50", "deploy on Dask", paired(sweeps[1:]), "s", 1.1)
    yield Row.of("sweep", "an empty task", "a call on Dask", paired(tasks[1:]), "ms", 4)
    halved = paired(list(zip(both[1:], alone[1:], strict=True)))
    yield Row.of("sweep", "eight cells, two workers", "one worker", halved, "s", 0.6)


def _ours(executor: Executor, folder: Path, turn: int) -> float:
    """Return the seconds of a cell."""
    cells = [
        lab.Cell(model=MODEL, backend="onnxruntime", seed=CELLS * turn + number)
        for number in range(CELLS)
    ]
    start = time.perf_counter()
    found = lab.sweep(cells, executor, output=folder / f"sweep-{turn}")
    assert {row.verdict for row in found.rows} == {"verified"}, found.rows
    return (time.perf_counter() - start) / CELLS


def _small(executor: Executor, folder: Path, name: str) -> float:
    """Return the seconds of eight cells of a small model."""
    cells = [
        lab.Cell(model="benchmarks.models:digits", backend="onnxruntime", seed=number)
        for number in range(8)
    ]
    start = time.perf_counter()
    found = lab.sweep(cells, executor, output=folder / name)
    assert {row.verdict for row in found.rows} == {"verified"}, found.rows
    return time.perf_counter() - start


def _by_hand(executor: Executor, folder: Path, turn: int) -> float:
    start = time.perf_counter()
    futures = [
        executor.submit(deployed, str(folder / f"deploy-{turn}-{number}"))
        for number in range(CELLS)
    ]
    assert {future.result() for future in futures} == {"verified"}
    return (time.perf_counter() - start) / CELLS


def deployed(work_dir: str) -> str:
    """Deploy in the worker's own process; called on a worker."""
    return eb.deploy(MODEL, backend="onnxruntime", work_dir=work_dir).verdict


def _tasks(executor: Executor) -> float:
    """Return the seconds of a task that does nothing."""
    tasks = [
        ExecutorTask(str(number), "benchmarks.sweep:nothing", b"", 60) for number in range(EMPTY)
    ]
    start = time.perf_counter()
    assert all(found.fault is None for found in run_tasks(tasks, executor))
    return (time.perf_counter() - start) / EMPTY


def _calls(executor: Executor) -> float:
    start = time.perf_counter()
    for future in [executor.submit(nothing, b"") for _ in range(EMPTY)]:
        future.result()
    return (time.perf_counter() - start) / EMPTY


def nothing(data: bytes) -> bytes:
    """Return the argument; called on a worker."""
    return data
