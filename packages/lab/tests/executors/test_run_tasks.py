"""`enginebay_lab.executors`: tasks on real executors, whose workers may die."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest

from enginebay.errors import InputError, UsageError
from enginebay.version import __version__
from enginebay_lab.executors import child_pool, task_runner, task_worker
from enginebay_lab.executors.local import local_executor
from enginebay_lab.executors.task_runner import check_executor, run_tasks
from enginebay_lab.executors.tasks import ExecutorTask, TaskOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULE = """
import ctypes, os, time
from pathlib import Path


def echo(data: bytes) -> bytes:
    return data


def pid(data: bytes) -> bytes:
    return str(os.getpid()).encode()


def crash(data: bytes) -> bytes:
    ctypes.string_at(0)


def litter(data: bytes) -> bytes:
    import tempfile
    Path(tempfile.mkdtemp(), "large").touch()
    ctypes.string_at(0)


def hang(data: bytes) -> bytes:
    Path(data.decode()).touch()
    time.sleep(600)


def wrong(data: bytes) -> bytes:
    raise ValueError("no")


def refuse(data: bytes) -> bytes:
    from enginebay.errors import InputError

    raise InputError("not this", hint="that")


def nested(data: bytes) -> bytes:
    from enginebay.isolation import run

    run(["sh", "-c", "kill -SEGV $$"], timeout=60)
    return data


def large(data: bytes) -> bytes:
    global kept
    kept = bytearray(int(data))
    return str(os.getpid()).encode()
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "work.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    child_pool.end_children()


def _task(key: str, function: str = "echo", data: bytes = b"", limit: float = 600) -> ExecutorTask:
    return ExecutorTask(key, f"work:{function}", data or key.encode(), limit)


def _by_key(outcomes: Iterator[TaskOutcome]) -> dict[str, TaskOutcome]:
    found = list(outcomes)
    assert len({each.key for each in found}) == len(found)
    return {each.key: each for each in found}


def _fault(outcome: TaskOutcome) -> tuple[str, str]:
    assert outcome.fault is not None
    assert outcome.value is None
    return outcome.fault.kind, outcome.fault.reason


def test_each_task_has_one_outcome_and_a_fault_fails_only_its_task(
    tmp_path: Path, soon: int
) -> None:
    tasks = [_task(str(number)) for number in range(20)]
    tasks[3:3] = [
        _task("crash", "crash"),
        _task("hang", "hang", str(tmp_path / "begun").encode(), limit=soon),
        _task("wrong", "wrong"),
        _task("refused", "refuse"),
        _task("nested", "nested"),
        _task("gone", "gone"),
    ]
    begun = []
    with local_executor(2) as executor:
        found = _by_key(run_tasks(tasks, executor, on_begin=lambda key, _: begun.append(key)))
    assert found.keys() == {task.key for task in tasks} == set(begun)
    for number in range(20):
        assert found[str(number)].value == str(number).encode()
    assert _fault(found["crash"]) == ("crashed", "its process ended with SIGSEGV")
    assert _fault(found["nested"]) == ("crashed", "'sh' ended with SIGSEGV")
    assert _fault(found["hang"]) == ("time limit", f"the task exceeded its time limit of {soon} s")
    assert _fault(found["wrong"]) == ("raised", "'the task' raised ValueError: no")
    assert _fault(found["gone"])[0] == "raised"
    assert _fault(found["refused"]) == ("raised", "not this")
    kinds = {key: fault.error for key, each in found.items() if (fault := each.fault)}
    assert {key for key, kind in kinds.items() if kind} == {"refused"}
    assert found["refused"].fault
    error = found["refused"].fault.to_error()
    assert (type(error), str(error), error.hint) == (InputError, "not this", "that")
    assert {each.attempts for each in found.values()} == {1}
    assert {each.host for each in found.values()} == {os.uname().nodename}


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children())


def test_a_child_is_reused_unless_it_uses_too_much_memory() -> None:
    before = _children()
    with local_executor(1) as executor:
        tasks = [
            _task("a", "large", b"1"),
            _task("b", "large", str(child_pool.MAX_CHILD_BYTES).encode()),
            _task("c", "large", b"1"),
            _task("d", "pid"),
            _task("e", "pid"),
        ]
        found = _by_key(run_tasks(tasks, executor))
    pids = [found[key].value for key in "abcde"]
    assert pids[0] == pids[1] != pids[2]
    assert pids[2] != pids[3] == pids[4]  # a child runs one function
    assert not _children() - before


def test_temporary_files_are_deleted_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with local_executor(1) as executor:
        found = _by_key(run_tasks([_task("a", "litter"), _task("b")], executor))
        assert found["a"].fault
        assert len(list(tmp_path.glob("enginebay-task-*"))) == 1  # the folder of the reused child
    assert not list(tmp_path.glob("enginebay-task-*"))


def test_a_child_without_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_pool, "IDLE_SECONDS", 0.1)
    pid = int(child_pool.call_in_child("work:pid", b"", 600))
    while psutil.pid_exists(pid):
        time.sleep(0.1)
    assert int(child_pool.call_in_child("work:pid", b"", 600)) != pid


def test_leaving_the_executor_ends_running_tasks(tmp_path: Path) -> None:
    before = _children()
    begun = tmp_path / "begun"
    with local_executor(1) as executor:
        outcomes = run_tasks([_task("a"), _task("hang", "hang", str(begun).encode())], executor)
        assert next(outcomes).key == "a"
        while not begun.exists():
            time.sleep(0.01)
        start = time.monotonic()
        outcomes.close()
    assert time.monotonic() - start < 300
    assert not _children() - before


def test_leaving_the_executor_ends_a_child_that_is_being_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _children()
    started = threading.Event()
    worker = child_pool.Worker

    def start_slowly(*args: Any) -> Any:
        started.set()
        time.sleep(0.5)
        return worker(*args)

    monkeypatch.setattr(child_pool, "Worker", start_slowly)
    start = time.monotonic()
    with local_executor(1) as executor:
        outcomes = run_tasks([_task("hang", "hang", str(tmp_path / "x").encode())], executor)
        thread = threading.Thread(target=lambda: next(outcomes, None), daemon=True)
        thread.start()
        assert started.wait(60)
    assert time.monotonic() - start < 300
    thread.join(60)
    assert not _children() - before


class _Stopping(Executor):
    """Accepts tasks, and never runs the first ones."""

    def __init__(self, stopped: int, *, begins: bool) -> None:
        self.stopped, self.begins = stopped, begins
        self.pool = ThreadPoolExecutor(1)
        self.sent: list[Future[Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if len(self.sent) >= self.stopped:
            self.sent.append(self.pool.submit(fn, *args))
        else:
            self.sent.append(Future())
            _, topic, task = msgspec.msgpack.decode(args[0], type=tuple[str, str, ExecutorTask])
            if self.begins:
                task_worker.start_listeners[topic](task.key, "there")
        return self.sent[-1]


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runner, "GRACE_SECONDS", 0.5)


@pytest.mark.usefixtures("_impatient")
def test_a_task_whose_worker_stopped_is_sent_again_once(soon: int) -> None:
    executor = _Stopping(1, begins=True)
    with executor.pool:
        (outcome,) = run_tasks([_task("a", limit=soon)], executor)
    assert (outcome.value, outcome.attempts, outcome.fault) == (b"a", 2, None)
    executor = _Stopping(2, begins=True)
    (outcome,) = run_tasks([_task("a", limit=0.5)], executor)
    assert _fault(outcome) == (
        "no answer",
        "there, which started the task, has not answered within 1 s",
    )
    assert (outcome.attempts, outcome.host) == (2, "there")
    assert all(future.cancelled() for future in executor.sent)


@pytest.mark.usefixtures("_impatient")
def test_tasks_of_a_silent_executor_fail() -> None:
    executor = _Stopping(3, begins=False)
    found = _by_key(run_tasks([_task(each, limit=0.5) for each in "abc"], executor))
    assert _fault(found["a"]) == ("no answer", "a worker has not answered within 1 s")
    assert len(found) == 3


@pytest.mark.usefixtures("_impatient")
def test_a_late_answer_counts_once(soon: int) -> None:
    """The first worker continues after the task was sent again, and ends first."""
    late = task_worker.perform_order(task_worker.encode_order("", _task("a")))
    executor = _Stopping(9, begins=True)

    def answer() -> None:
        while len(executor.sent) < 2:
            time.sleep(0.01)
        executor.sent[1].set_result(late)

    thread = threading.Thread(target=answer)
    thread.start()
    (outcome,) = run_tasks([_task("a", limit=soon)], executor)
    thread.join()
    assert (outcome.value, outcome.attempts) == (b"a", 2)


def test_another_version_names_the_command_to_install() -> None:
    order = msgspec.msgpack.encode(("9.9", "", _task("a")))
    outcome = msgspec.msgpack.decode(task_worker.perform_order(order), type=TaskOutcome)
    assert outcome.fault is not None
    assert outcome.fault.kind == "other version"
    assert outcome.fault.reason.endswith(f"has Enginebay {__version__}, but the sender has 9.9")
    assert outcome.fault.hint.startswith("pip install enginebay==9.9 on ")
    other = msgspec.msgpack.encode(("9.9", "", {"unknown": 1}))
    assert msgspec.msgpack.decode(task_worker.perform_order(other), type=TaskOutcome).fault


def test_more_tasks_than_can_be_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runner, "MAX_IN_FLIGHT", 3)
    with local_executor(2) as executor:
        found = _by_key(run_tasks((_task(str(number)) for number in range(50)), executor))
    assert len(found) == 50


def test_a_value_that_is_not_an_executor_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        check_executor(3)
    assert str(caught.value) == "executor: expected a concurrent.futures.Executor, found int"
    check_executor(None)


class _Strange(Executor):
    """An executor whose workers send arbitrary replies."""

    def __init__(self, reply: Any) -> None:
        self._reply = reply

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(self._reply)
        return future


@pytest.mark.parametrize(
    "reply", [None, 3, "text", b"", b"\xc1", msgspec.msgpack.encode({"value": 3}), b"\x80"]
)
def test_a_reply_that_is_not_an_outcome_is_damaged(reply: Any) -> None:
    (outcome,) = run_tasks([ExecutorTask("a", "work:echo", b"", 5.0)], _Strange(reply))
    assert (outcome.key, outcome.value) == ("a", None)
    assert outcome.fault
    assert outcome.fault.kind == "damaged"
