"""A task in the process of a worker, which may have another version."""

from __future__ import annotations

import os

import msgspec
import pytest
from packages.lab.tests.executors.work_tasks import fault_of, make_task

from enginebay import __version__
from enginebay_lab.executors import task_worker
from enginebay_lab.executors.tasks import ExecutorTask, TaskOutcome


def test_another_version_names_the_command_to_install() -> None:
    order = msgspec.msgpack.encode(("9.9", "", make_task("a")))
    outcome = msgspec.msgpack.decode(task_worker.perform_order(order), type=TaskOutcome)
    assert outcome.fault is not None
    assert outcome.fault.kind == "other version"
    assert outcome.fault.reason.endswith(f"has Enginebay {__version__}, but the sender has 9.9")
    assert outcome.fault.hint.endswith(": pip install enginebay==9.9")
    other = msgspec.msgpack.encode(("9.9", "", {"unknown": 1}))
    assert msgspec.msgpack.decode(task_worker.perform_order(other), type=TaskOutcome).fault


def perform(task: ExecutorTask, topic: str = "") -> TaskOutcome:
    reply = task_worker.perform_order(task_worker.encode_order(topic, task))
    return msgspec.msgpack.decode(reply, type=TaskOutcome)


def test_an_outcome_has_the_host_and_the_time_but_no_key() -> None:
    found = perform(make_task("a"))
    assert (found.key, found.value, found.fault) == ("", b"a", None)
    assert found.host == os.uname().nodename
    assert found.seconds > 0


def test_the_start_of_a_task_is_reported_to_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[str, str]] = []
    monkeypatch.setitem(
        task_worker.start_listeners, "mine", lambda key, host: heard.append((key, host))
    )
    perform(make_task("a"), "mine")
    perform(make_task("b"), "other")
    assert heard == [("a", os.uname().nodename)]


@pytest.mark.parametrize(
    ("function", "kind", "reason"),
    [
        ("work:crash", "crashed", "its process ended with SIGSEGV"),
        ("work:wrong", "raised", "'the task' raised ValueError: no"),
        ("work:refuse", "raised", "not this"),
    ],
)
def test_a_fault_is_an_outcome_and_no_exception(function: str, kind: str, reason: str) -> None:
    assert fault_of(perform(ExecutorTask("a", function, b"", 600))) == (kind, reason)


@pytest.mark.parametrize("function", ["work:missing", "no_such_module:f", "work"])
def test_a_function_that_does_not_exist_is_a_fault(function: str) -> None:
    assert fault_of(perform(ExecutorTask("a", function, b"", 600)))[0] == "raised"
