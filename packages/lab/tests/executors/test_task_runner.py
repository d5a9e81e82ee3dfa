"""Each task has exactly one outcome, whatever becomes of its worker."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from packages.lab.tests.executors.work_tasks import by_key, fault_of, make_task

from enginebay.errors import InputError, UsageError
from enginebay_lab.executors import task_runner, task_worker
from enginebay_lab.executors.local import local_executor
from enginebay_lab.executors.task_runner import check_executor, run_tasks
from enginebay_lab.executors.tasks import ExecutorTask, TaskOutcome

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_each_task_has_one_outcome_and_a_fault_fails_only_its_task(
    tmp_path: Path, soon: int
) -> None:
    tasks = [make_task(str(number)) for number in range(20)]
    tasks[3:3] = [
        make_task("crash", "crash"),
        make_task("hang", "hang", str(tmp_path / "begun").encode(), limit=soon),
        make_task("wrong", "wrong"),
        make_task("refused", "refuse"),
        make_task("nested", "nested"),
        make_task("gone", "gone"),
    ]
    begun = []
    with local_executor(2) as executor:
        found = by_key(run_tasks(tasks, executor, on_begin=lambda key, _: begun.append(key)))
    assert found.keys() == {task.key for task in tasks} == set(begun)
    for number in range(20):
        assert found[str(number)].value == str(number).encode()
    assert fault_of(found["crash"]) == ("crashed", "its process ended with SIGSEGV")
    assert fault_of(found["nested"]) == ("crashed", "'sh' ended with SIGSEGV")
    assert fault_of(found["hang"]) == (
        "time limit",
        f"the task exceeded its time limit of {soon} s",
    )
    assert fault_of(found["wrong"]) == ("raised", "'the task' raised ValueError: no")
    assert fault_of(found["gone"])[0] == "raised"
    assert fault_of(found["refused"]) == ("raised", "not this")
    kinds = {key: fault.error for key, each in found.items() if (fault := each.fault)}
    assert {key for key, kind in kinds.items() if kind} == {"refused"}
    assert found["refused"].fault
    error = found["refused"].fault.to_error()
    assert (type(error), str(error), error.hint) == (InputError, "not this", "that")
    assert {each.attempts for each in found.values()} == {1}
    assert {each.host for each in found.values()} == {os.uname().nodename}


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


@pytest.mark.slow
@pytest.mark.usefixtures("_impatient")
def test_a_task_whose_worker_stopped_is_sent_again_once(soon: int) -> None:
    executor = _Stopping(1, begins=True)
    with executor.pool:
        (outcome,) = run_tasks([make_task("a", limit=soon)], executor)
    assert (outcome.value, outcome.attempts, outcome.fault) == (b"a", 2, None)
    executor = _Stopping(2, begins=True)
    (outcome,) = run_tasks([make_task("a", limit=0.5)], executor)
    assert fault_of(outcome) == (
        "no answer",
        "there, which started the task, has not answered within 1 s",
    )
    assert (outcome.attempts, outcome.host) == (2, "there")
    assert all(future.cancelled() for future in executor.sent)


@pytest.mark.usefixtures("_impatient")
def test_tasks_of_a_silent_executor_fail() -> None:
    executor = _Stopping(3, begins=False)
    found = by_key(run_tasks([make_task(each, limit=0.5) for each in "abc"], executor))
    assert fault_of(found["a"]) == ("no answer", "a worker has not answered within 1 s")
    assert len(found) == 3


@pytest.mark.usefixtures("_impatient")
def test_a_late_answer_counts_once(soon: int) -> None:
    """The first worker continues after the task was sent again, and ends first."""
    late = task_worker.perform_order(task_worker.encode_order("", make_task("a")))
    executor = _Stopping(9, begins=True)

    def answer() -> None:
        while len(executor.sent) < 2:
            time.sleep(0.01)
        executor.sent[1].set_result(late)

    thread = threading.Thread(target=answer)
    thread.start()
    (outcome,) = run_tasks([make_task("a", limit=soon)], executor)
    thread.join()
    assert (outcome.value, outcome.attempts) == (b"a", 2)


def test_more_tasks_than_can_be_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_runner, "MAX_IN_FLIGHT", 3)
    with local_executor(2) as executor:
        found = by_key(run_tasks((make_task(str(number)) for number in range(50)), executor))
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


class Whims(Executor):
    """An executor whose workers end, fail, die or are cancelled, as a list says."""

    def __init__(self, whims: list[str]) -> None:
        self.whims = iter(whims)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        _, _, task = msgspec.msgpack.decode(args[0], type=tuple[str, str, ExecutorTask])
        whim = next(self.whims)
        if whim == "refuses":
            raise RuntimeError("no more")
        future: Future[Any] = Future()
        self.end(future, task, whim)
        return future

    def end(self, future: Future[Any], task: ExecutorTask, whim: str) -> None:
        if whim == "ends":
            reply = TaskOutcome(value=task.data, host="there", seconds=0.5)
            future.set_result(msgspec.msgpack.encode(reply))
        elif whim == "dies":
            future.set_exception(BrokenExecutor("the worker is gone"))
        elif whim == "raises":
            future.set_exception(ValueError("odd"))
        elif whim == "babbles":
            future.set_result(b"\xc1")
        elif whim == "cancels":
            future.cancel()


#: What a worker does, and the kind of the fault.
FAULTS = {
    "ends": "",
    "dies": "worker died",
    "raises": "raised",
    "babbles": "damaged",
    "cancels": "worker died",
}


@given(st.lists(st.sampled_from(sorted(FAULTS)), max_size=12))
def test_every_task_has_one_outcome_whatever_its_worker_does(whims: list[str]) -> None:
    tasks = [make_task(str(number)) for number in range(len(whims))]
    found = by_key(run_tasks(tasks, Whims(whims)))
    assert list(found) == [task.key for task in tasks]
    for outcome, whim in zip(found.values(), whims, strict=True):
        kind = outcome.fault.kind if outcome.fault else ""
        assert kind == FAULTS[whim]
        assert (outcome.value is None) == bool(kind)
        assert outcome.attempts == 1


def test_an_executor_that_accepts_no_more_fails_the_rest_at_once() -> None:
    executor = Whims(["ends", "refuses", "ends"])
    found = by_key(run_tasks([make_task(each) for each in "abcd"], executor))
    assert found["a"].value == b"a"
    for key in "bcd":
        assert fault_of(found[key]) == (
            "worker died",
            "the executor accepts no more tasks: RuntimeError: no more",
        )


def test_no_tasks_have_no_outcomes() -> None:
    assert list(run_tasks([], Whims([]))) == []
    assert task_worker.start_listeners == {}


def test_leaving_early_cancels_what_was_sent() -> None:
    executor = _Stopping(9, begins=False)
    with executor.pool:
        outcomes = run_tasks([make_task("a"), make_task("b")], executor)
        thread = threading.Thread(target=lambda: next(outcomes, None), daemon=True)
        thread.start()
        while len(executor.sent) < 2:
            time.sleep(0.01)
        executor.sent[0].set_result(b"")
        thread.join(60)
        outcomes.close()
    assert executor.sent[1].cancelled()
    assert task_worker.start_listeners == {}


def test_a_client_of_dask_is_told_how_to_pass_its_executor() -> None:
    class Client:
        def get_executor(self) -> None: ...

    with pytest.raises(UsageError) as caught:
        check_executor(Client())
    assert str(caught.value) == "executor: expected a concurrent.futures.Executor, found Client"
    assert caught.value.hint == "executor=client.get_executor(pure=False)"
