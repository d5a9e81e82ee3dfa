"""Child processes that run one task after another."""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from packages.lab.tests.executors.work_tasks import by_key, child_processes, make_task

from enginebay_lab.executors import child_pool
from enginebay_lab.executors.local import local_executor
from enginebay_lab.executors.task_runner import run_tasks

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_a_child_is_reused_unless_it_uses_too_much_memory(before: set[psutil.Process]) -> None:
    with local_executor(1) as executor:
        tasks = [
            make_task("a", "large", b"1"),
            make_task("b", "large", str(child_pool.MAX_CHILD_BYTES).encode()),
            make_task("c", "large", b"1"),
            make_task("d", "pid"),
            make_task("e", "pid"),
        ]
        found = by_key(run_tasks(tasks, executor))
    pids = [found[key].value for key in "abcde"]
    assert pids[0] == pids[1] != pids[2]
    assert pids[2] != pids[3] == pids[4]  # a child runs one function
    assert not child_processes() - before


def test_temporary_files_are_deleted_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with local_executor(1) as executor:
        found = by_key(run_tasks([make_task("a", "litter"), make_task("b")], executor))
        assert found["a"].fault
        assert len(list(tmp_path.glob("enginebay-task-*"))) == 1  # the folder of the reused child
    assert not list(tmp_path.glob("enginebay-task-*"))


def test_a_child_without_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_pool, "IDLE_SECONDS", 0.1)
    pid = int(child_pool.call_in_child("work:pid", b"", 600))
    while psutil.pid_exists(pid):
        time.sleep(0.1)
    assert int(child_pool.call_in_child("work:pid", b"", 600)) != pid
