"""Tasks, their outcomes, and faults as exceptions."""

from __future__ import annotations

import msgspec
import pytest

from enginebay.errors import ConversionError, EnginebayError, UsageError
from enginebay_lab.executors.tasks import ExecutorTask, TaskFault, TaskOutcome


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("UsageError", UsageError),
        ("ConversionError", ConversionError),
        ("", EnginebayError),
        ("NoSuchError", EnginebayError),  # another version may have it
        ("ValueError", EnginebayError),
        ("first_line", EnginebayError),  # a function of the same module
        ("__name__", EnginebayError),
    ],
)
def test_a_fault_becomes_an_error_of_its_class(name: str, kind: type[EnginebayError]) -> None:
    error = TaskFault("raised", "not this", "that", name).to_error()
    assert type(error) is kind
    assert (str(error), error.hint) == ("not this", "that")


def test_every_class_of_error_can_come_back() -> None:
    from enginebay import errors

    for name in dir(errors):
        error = TaskFault("raised", "why", "", name).to_error()
        assert isinstance(error, EnginebayError)
        assert str(error).startswith("why")


def test_a_fault_without_a_hint_has_none() -> None:
    assert TaskFault("crashed", "gone").to_error().hint is None


@pytest.mark.parametrize(
    "value",
    [
        ExecutorTask("a", "m:f", b"\x00\xff", 1.5),
        TaskOutcome(key="a", value=b"", host="h", attempts=2, seconds=0.25),
        TaskOutcome(fault=TaskFault("no answer", "silence")),
    ],
)
def test_what_travels_can_be_read_back(value: ExecutorTask | TaskOutcome) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value)) == value
