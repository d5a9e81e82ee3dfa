"""Tasks on a Dask scheduler, while its workers die and stop."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from enginebay.errors import UsageError
from enginebay_lab.executors.dask import dask_executor
from enginebay_lab.executors.task_runner import run_tasks
from enginebay_lab.executors.tasks import ExecutorTask

from .processes import Cluster

if TYPE_CHECKING:
    from pathlib import Path

MODULE = """
import time
from pathlib import Path


def note(data: bytes) -> bytes:
    folder, _, key = data.decode().rpartition("/")
    with Path(folder, key).open("a") as file:
        file.write("x")
    time.sleep(0.3)
    return data
"""


@pytest.mark.slow
def test_killed_and_stopped_workers_lose_and_repeat_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, soon: int
) -> None:
    (tmp_path / "dask_work.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    notes = tmp_path / "notes"
    notes.mkdir()
    tasks = [
        ExecutorTask(str(number), "dask_work:note", f"{notes}/{number}".encode(), 600)
        for number in range(40)
    ]
    hosts = []
    cluster = Cluster(tmp_path / "cluster", 4, ttl=5 * soon)
    with cluster, dask_executor(cluster.address) as executor:

        def disturb() -> None:
            while len(list(notes.iterdir())) < 8:
                time.sleep(0.01)
            cluster.workers[0].send_signal(signal.SIGKILL)
            cluster.workers[1].send_signal(signal.SIGSTOP)

        thread = threading.Thread(target=disturb)
        thread.start()
        results = list(run_tasks(tasks, executor, on_begin=lambda _, host: hosts.append(host)))
        thread.join()
    assert sorted(int(result.key) for result in results) == list(range(40))
    assert [result.fault for result in results] == [None] * 40
    assert {result.value for result in results} == {task.data for task in tasks}
    begun = {path.name: len(path.read_text()) for path in notes.iterdir()}
    again = {result.key: result.attempts for result in results if result.attempts > 1}
    # The tasks of the two workers; a task that had only begun may have no note.
    assert 1 <= len(again) <= 4, again
    # dask itself repeats tasks whose results a lost worker had not sent.
    lost = {key for key, count in begun.items() if count > 1} - again.keys()
    assert len(lost) <= 2
    assert 0 <= len(hosts) - 40 - sum(count - 1 for count in again.values()) <= len(lost)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch, soon: int) -> None:
    monkeypatch.setattr("enginebay_lab.executors.dask.CONNECT_SECONDS", soon)


@pytest.mark.usefixtures("_impatient")
def test_absent_scheduler_is_refused_with_a_hint() -> None:
    wanted = r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:1'"
    with (
        pytest.raises(UsageError, match=wanted) as caught,
        dask_executor("tcp://127.0.0.1:1"),
    ):
        pass
    assert caught.value.hint == (
        "start a scheduler at tcp://HOST:8786: dask scheduler --host HOST --port 8786"
    )


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("address", ["", "nowhere", "http://127.0.0.1:1", "tcp://no.such.host:1"])
def test_invalid_scheduler_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="no Dask scheduler answers"), dask_executor(address):
        pass


@pytest.mark.slow
@pytest.mark.usefixtures("_impatient")
def test_scheduler_without_workers_is_refused(tmp_path: Path) -> None:
    with (
        Cluster(tmp_path, 0) as cluster,
        pytest.raises(UsageError, match="has no worker") as caught,
        dask_executor(cluster.address),
    ):
        pass
    assert caught.value.hint == f"start a worker: dask worker {cluster.address}"


def test_workers_of_a_different_version_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginebay_lab.executors.dask.__version__", "9.9")
    with (
        Cluster(tmp_path, 1) as cluster,
        pytest.raises(UsageError, match=r"has enginebay .*; expected 9\.9") as caught,
        dask_executor(cluster.address),
    ):
        pass
    assert (
        caught.value.hint == "install the same version on both machines: pip install enginebay==9.9"
    )
