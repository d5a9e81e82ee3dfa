"""Child processes that run one task after the other, kept while there is work."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import time
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors import Worker
from enginebay_lab.resources import resident_memory

if TYPE_CHECKING:
    from collections.abc import Callable

#: The function that is called in the child process.
FUNCTION = "enginebay_lab.executors.children:serve"
#: Seconds without work after which a child ends: it holds torch and whatever it was last used with.
IDLE = 30.0
#: A child with more bytes in RAM after a task is not kept: torch and all that exports and converts
#: take 0.6 GB, and the rest is left over from models.
MOST = 2 << 30


def serve(folder: str) -> Callable[[bytes], bytes]:
    """Wait for calls in this process; called in a child process.

    Args:
        folder: Where it and the processes that it starts put temporary files. It goes with the
            process, since a model that crashes removes none of them.
    """
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None  # it is read again
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

    def run(message: bytes) -> bytes:
        named, data = msgspec.msgpack.decode(message, type=tuple[str, bytes])
        module, _, name = named.partition(":")
        function: Callable[[bytes], bytes] = attrgetter(name)(import_module(module))
        return msgspec.msgpack.encode((function(data), resident_memory()))

    return run


def call_in_child(function: str, data: bytes, limit: float) -> bytes:
    """Call a function in a child that is kept for the next call.

    Args:
        function: ``module:qualname``; takes bytes and returns bytes.
        data: What it takes.
        limit: Seconds that it may take, the start of a new child included.

    Raises:
        ChildCrashedError: It ended its process.
        ChildTimeoutError: It ran past the limit, and was ended.
        EnginebayError: Whatever it raised.
    """
    end = time.monotonic() + limit
    child = _taken()
    try:
        value, memory = child.call(function, data, end)
    except BaseException:
        child.close()
        raise
    child.wait() if memory is None or memory <= MOST else child.close()
    return value


def end_children() -> None:
    """End all children of this process; calls that wait for one raise in their threads."""
    with _lock:
        working, waiting = list(_working), list(_waiting)
        _waiting.clear()
    for child in working:
        child.kill()
    for child in waiting:
        child.close()


class _Child:
    """A child process, and the time that it has been without work."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="enginebay-task-")
        self._worker = Worker("the task", FUNCTION, self._folder)
        self._is_new = True
        self._timer: threading.Timer | None = None

    def call(self, function: str, data: bytes, end: float) -> tuple[bytes, int | None]:
        """The value, and the bytes that the child has in RAM."""
        if self._timer is not None:
            self._timer.cancel()
        if self._is_new:
            self._receive(end)
            self._is_new = False
        self._worker.send(msgspec.msgpack.encode((function, data)))
        return msgspec.msgpack.decode(self._receive(end), type=tuple[bytes, int | None])

    def _receive(self, end: float) -> bytes:
        return self._worker.receive(max(0.001, end - time.monotonic()))

    def wait(self) -> None:
        """Be ready for the next call, for some time."""
        with _lock:
            _working.discard(self)
            _waiting.append(self)
        self._timer = threading.Timer(IDLE, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        with _lock:
            if self not in _waiting:
                return
            _waiting.remove(self)
        self._close()

    def kill(self) -> None:
        self._worker.kill()

    def close(self) -> None:
        with _lock:
            _working.discard(self)
        self._close()

    def _close(self) -> None:
        self._worker.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _taken() -> _Child:
    """A child that waits, or a new one."""
    with _lock:
        child = _waiting.pop() if _waiting else None
    child = child or _Child()
    with _lock:
        _working.add(child)
    return child


_lock = threading.Lock()
_waiting: list[_Child] = []
_working: set[_Child] = set()


def _forget() -> None:
    """The children of a process that was forked are not its fork's."""
    global _lock, _waiting, _working
    _lock, _waiting, _working = threading.Lock(), [], set()


if hasattr(os, "register_at_fork"):  # not on Windows, where importing this must not fail
    os.register_at_fork(after_in_child=_forget)
