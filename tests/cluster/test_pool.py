"""Tasks on a pool of processes, and on a pool that breaks."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

from enginebay_lab.executors.task_runner import run_tasks
from enginebay_lab.executors.tasks import ExecutorTask

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

MODULE = """
import ctypes


def echo(data: bytes) -> bytes:
    return data


def crash(data: bytes) -> bytes:
    ctypes.string_at(0)
"""


def test_crash_loses_its_task_and_a_dead_worker_every_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pool_work.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)

    def task(key: str, function: str = "echo") -> ExecutorTask:
        return ExecutorTask(key, f"pool_work:{function}", key.encode(), 30)

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        results = {
            result.key: result for result in run_tasks([task("a"), task("b", "crash")], pool)
        }
        assert results["a"].value == b"a"
        assert results["b"].fault
        assert results["b"].fault.kind == "crashed"
        (worker,) = pool._processes.values()
        os.kill(worker.pid, signal.SIGKILL)
        lost = list(run_tasks([task(each) for each in "cde"], pool))
    assert sorted(result.key for result in lost) == ["c", "d", "e"]
    faults = [result.fault for result in lost if result.fault]
    assert {fault.kind for fault in faults} == {"worker died"}
    assert "BrokenProcessPool" in faults[-1].reason
