"""Tasks that succeed or fail in every way, and what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

from enginebay_lab.executors.tasks import ExecutorTask, TaskOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The module ``work``, whose functions the tasks call.
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
    from enginebay.authors.isolation import run

    run(["sh", "-c", "kill -SEGV $$"], timeout=60)
    return data


def large(data: bytes) -> bytes:
    global kept
    kept = bytearray(int(data))
    return str(os.getpid()).encode()
"""


def make_task(
    key: str, function: str = "echo", data: bytes = b"", limit: float = 600
) -> ExecutorTask:
    return ExecutorTask(key, f"work:{function}", data or key.encode(), limit)


def by_key(outcomes: Iterator[TaskOutcome]) -> dict[str, TaskOutcome]:
    found = list(outcomes)
    assert len({each.key for each in found}) == len(found)
    return {each.key: each for each in found}


def fault_of(outcome: TaskOutcome) -> tuple[str, str]:
    assert outcome.fault is not None
    assert outcome.value is None
    return outcome.fault.kind, outcome.fault.reason


def child_processes() -> set[psutil.Process]:
    return set(psutil.Process().children())
