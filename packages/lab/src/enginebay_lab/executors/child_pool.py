"""A pool of child processes that run one task after another and are reused between tasks."""

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

from enginebay.authors import isolation
from enginebay_lab.resources import resident_memory

if TYPE_CHECKING:
    from collections.abc import Callable

#: The function that is called in the child process.
FUNCTION = "enginebay_lab.executors.child_pool:serve_calls"
#: An idle child ends after this time: it still has torch and the last model in memory.
IDLE_SECONDS = 30.0
#: A child with more RAM in use after a task is not reused. Torch, the exporters and the converters
#: take 0.6 GB (measured); the rest is left over from models.
MAX_CHILD_BYTES = 2 << 30


def serve_calls(folder: str, function: str) -> Callable[[bytes], bytes]:
    """Set this process's folder for temporary files, and return a handler that calls a function.

    The handler returns MessagePack: the function's result, and the memory of the process.

    Args:
        folder: The folder for temporary files of this process and of the processes that it starts.
        function: ``module:qualname`` of a function that takes bytes and returns bytes.
    """
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None  # makes tempfile read TMPDIR again
    # The files of models that crash are left over.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

    module, _, name = function.partition(":")
    call: Callable[[bytes], bytes] = attrgetter(name)(import_module(module))
    return lambda data: msgspec.msgpack.encode((call(data), resident_memory()))


def call_in_child(function: str, data: bytes, limit: float) -> bytes:
    """Call a function in a child process; later calls of the same function reuse the child.

    Args:
        function: ``module:qualname`` of a function that takes bytes and returns bytes.
        data: The function's argument.
        limit: Time limit in seconds, including the start of a new child.

    Raises:
        ChildCrashedError: The child process ended during the call.
        ChildTimeoutError: The call exceeded the limit, and the child was killed.
        EnginebayError: The function raised an exception.
    """
    end = time.monotonic() + limit
    child = _take_child(function)
    try:
        value, memory = child.call_function(data, end)
    except BaseException:
        child.close()  # its next reply would be the answer to this call
        raise
    child.wait_for_work() if memory is None or memory <= MAX_CHILD_BYTES else child.close()
    return value


def end_children() -> None:
    """End all child processes of the pool; calls that have not returned raise an exception."""
    with _lock:
        working, waiting = list(_working), list(_waiting)
        _waiting.clear()
    for child in working:
        child.kill_process()  # the thread that waits for its reply closes it
    for child in waiting:
        child.close()


class _Child:
    """A child process for calls of one function, which ends after a long idle time."""

    def __init__(self, function: str) -> None:
        self.function = function
        self._folder = tempfile.mkdtemp(prefix="enginebay-task-")
        self._worker = isolation.Worker("the task", FUNCTION, self._folder, function)
        self._is_new = True
        self._timer: threading.Timer | None = None

    def call_function(self, data: bytes, end: float) -> tuple[bytes, int | None]:
        """Call a function in the child; return the result, and the child's memory in bytes.

        ``end`` is the time limit, as a value of ``time.monotonic()``.
        """
        if self._timer is not None:
            self._timer.cancel()
        if self._is_new:
            self._receive_reply(end)  # the first message reports that the child is ready
            self._is_new = False
        self._worker.send(data)
        return msgspec.msgpack.decode(self._receive_reply(end), type=tuple[bytes, int | None])

    def _receive_reply(self, end: float) -> bytes:
        return self._worker.receive(max(0.001, end - time.monotonic()))

    def wait_for_work(self) -> None:
        """Offer this child to the next call; end it if it stays idle for ``IDLE_SECONDS``."""
        with _lock:
            _working.discard(self)
            _waiting.append(self)
        self._timer = threading.Timer(IDLE_SECONDS, self._end_if_idle)
        self._timer.daemon = True  # an idle child does not delay the end of this process
        self._timer.start()

    def _end_if_idle(self) -> None:
        with _lock:
            if self not in _waiting:  # a call has taken it meanwhile
                return
            _waiting.remove(self)
        self._close_worker()

    def kill_process(self) -> None:
        self._worker.kill()

    def close(self) -> None:
        with _lock:
            _working.discard(self)
        self._close_worker()

    def _close_worker(self) -> None:
        self._worker.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _take_child(function: str) -> _Child:
    """Return an idle child that has called the function before, or start a new one."""
    with _lock:
        child = next((child for child in _waiting if child.function == function), None)
        if child is not None:
            _waiting.remove(child)
    child = child or _Child(function)  # outside the lock, because a new process takes long to start
    with _lock:
        _working.add(child)
    return child


_lock = threading.Lock()
_waiting: list[_Child] = []
_working: set[_Child] = set()


def _forget_children() -> None:
    # A fork inherits these lists, but the children belong to its parent.
    global _lock, _waiting, _working
    _lock, _waiting, _working = threading.Lock(), [], set()


if hasattr(os, "register_at_fork"):  # not on Windows, where importing this must not fail
    os.register_at_fork(after_in_child=_forget_children)
