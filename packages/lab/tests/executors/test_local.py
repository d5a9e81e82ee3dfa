"""The executor of this machine, and what is left when it ends."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from packages.lab.tests.executors.work_tasks import child_processes, make_task

from enginebay.authors import isolation
from enginebay_lab.executors import local
from enginebay_lab.executors.local import local_executor
from enginebay_lab.executors.task_runner import run_tasks

if TYPE_CHECKING:
    from pathlib import Path

    import psutil


def test_leaving_the_executor_ends_running_tasks(
    tmp_path: Path, before: set[psutil.Process]
) -> None:
    begun = tmp_path / "begun"
    with local_executor(1) as executor:
        outcomes = run_tasks(
            [make_task("a"), make_task("hang", "hang", str(begun).encode())], executor
        )
        assert next(outcomes).key == "a"
        while not begun.exists():
            time.sleep(0.01)
        start = time.monotonic()
        outcomes.close()
    assert time.monotonic() - start < 300
    assert not child_processes() - before


def test_leaving_the_executor_ends_a_child_that_is_being_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: set[psutil.Process]
) -> None:
    started = threading.Event()
    worker = isolation.Worker

    def start_slowly(*args: Any) -> Any:
        started.set()
        time.sleep(0.5)
        return worker(*args)

    monkeypatch.setattr(isolation, "Worker", start_slowly)
    start = time.monotonic()
    with local_executor(1) as executor:
        outcomes = run_tasks([make_task("hang", "hang", str(tmp_path / "x").encode())], executor)
        thread = threading.Thread(target=lambda: next(outcomes, None), daemon=True)
        thread.start()
        assert started.wait(60)
    assert time.monotonic() - start < 300
    thread.join(60)
    assert not child_processes() - before


@pytest.mark.parametrize(
    ("cores", "memory", "workers"),
    [(8, None, 8), (8, 5 << 30, 2), (2, 100 << 30, 2), (4, 0, 1), (4, 1 << 30, 1), (1, None, 1)],
)
def test_the_number_of_workers_fits_the_cores_and_the_memory(
    monkeypatch: pytest.MonkeyPatch, cores: int, memory: int | None, workers: int
) -> None:
    monkeypatch.setattr(local, "count_cores", lambda: cores)
    monkeypatch.setattr(local, "free_memory", lambda: memory)
    assert local.default_worker_count() == workers
