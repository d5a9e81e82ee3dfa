"""`enginebay.isolation.Worker`: one function in a child process, called again and again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil
import pytest

from enginebay.errors import ChildCrashedError, ChildTimeoutError, InputError, IsolationError
from enginebay.isolation import Worker

if TYPE_CHECKING:
    from pathlib import Path

MODULE = """
import ctypes, os, sys, time
from enginebay.errors import InputError


def build(times: int):
    if times < 0:
        raise InputError("negative", hint="add some")
    return lambda message: handle(message, times)


def handle(message: bytes, times: int) -> bytes:
    if message == b"crash":
        print("my last words")
        ctypes.string_at(0)
    if message == b"exit":
        sys.exit(3)
    if message == b"hang":
        time.sleep(600)
    if message == b"raise":
        raise ValueError("no")
    if message == b"pid":
        return str(os.getpid()).encode()
    print("noise" * 100_000)
    return message * times
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "served.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)


def test_messages_larger_than_any_buffer_go_both_ways() -> None:
    with Worker("engine", "served:build", 3) as worker:
        for message in (b"a" * 3_000_000, b"b", b""):
            worker.send(message)
        assert worker.receive(600) == b""
        assert worker.receive(600) == b"a" * 9_000_000
        assert [worker.receive(600), worker.receive(600)] == [b"bbb", b""]


def test_error_is_raised_in_the_parent_and_the_child_continues() -> None:
    with Worker("engine", "served:build", 1) as worker:
        worker.receive(600)
        worker.send(b"raise")
        with pytest.raises(IsolationError, match="'engine' raised ValueError: no"):
            worker.receive(600)
        worker.send(b"x")
        assert worker.receive(600) == b"x"
    with Worker("engine", "served:build", -1) as worker:
        with pytest.raises(InputError, match="negative") as caught:
            worker.receive(600)
        assert caught.value.hint == "add some"


def test_paused_child_is_idle_until_resumed() -> None:
    with Worker("engine", "served:build", 1) as worker:
        worker.receive(600)
        worker.send(b"pid")
        child = psutil.Process(int(worker.receive(600)))
        worker.pause()
        worker.send(b"x")
        end = time.monotonic() + 100
        while child.status() != psutil.STATUS_STOPPED and time.monotonic() < end:
            time.sleep(0.01)
        assert child.status() == psutil.STATUS_STOPPED
        worker.resume()
        assert worker.receive(600) == b"x"
        worker.pause()
    assert not child.is_running()


@pytest.mark.parametrize(("how", "ending"), [("crash", "SIGSEGV"), ("exit", "exit code 3")])
def test_a_child_that_ends_is_an_error(how: str, ending: str) -> None:
    with Worker("engine", "served:build", 1) as worker:
        worker.receive(600)
        worker.send(how.encode())
        with pytest.raises(ChildCrashedError, match=f"'engine' ended with {ending}"):
            worker.receive(600)


def test_a_child_that_hangs_is_ended() -> None:
    with Worker("engine", "served:build", 1) as worker:
        worker.receive(600)
        worker.send(b"hang")
        start = time.monotonic()
        with pytest.raises(ChildTimeoutError, match=r"'engine' ran past its time limit of 0\.2 s"):
            worker.receive(0.2)
    assert time.monotonic() - start < 300


def test_no_process_is_left_running() -> None:
    this = psutil.Process()
    before = this.num_fds()
    with Worker("engine", "served:build", 1) as worker:
        worker.receive(600)
        worker.send(b"pid")
        child = int(worker.receive(600))
        assert psutil.pid_exists(child)
    worker.close()
    assert not psutil.pid_exists(child)
    assert this.num_fds() == before
