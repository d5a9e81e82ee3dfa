"""A child process that calls a Python function repeatedly."""

from __future__ import annotations

import contextlib
import logging
import selectors
import signal
import socket
import time
from contextlib import ExitStack
from functools import partial
from typing import Self

from enginebay.isolation.child import LENGTH_BYTES, Raised, Returned, decode_value, frame_message
from enginebay.isolation.function_calls import child_command, encode_arguments, raise_from_child
from enginebay.isolation.process_group import (
    KILL_GRACE_SECONDS,
    OutputLog,
    ProcessGroup,
    drain_output,
)
from enginebay.isolation.programs import (
    Finished,
    crash_error,
    end_group,
    start_child,
    timeout_error,
)
from enginebay.time_limits import effective_timeout

_logger = logging.getLogger("enginebay.isolation")

_LOG_CHUNK_BYTES = 1 << 16


class Worker:
    """Context manager that starts a child process, and ends the child and its children on exit.

    The child calls the function once with the arguments. The function returns a message handler, a
    function from bytes to bytes, which the child calls with each message. Only :meth:`receive`
    waits for the child.

    Args:
        name: The child's name in error messages.
        function: The function's name, as for :func:`~enginebay.isolation.call`.
        *args: The function's positional arguments.

    Raises:
        IsolationError: The child cannot be started, or an argument cannot be encoded.
    """

    def __init__(self, name: str, function: str, /, *args: object) -> None:
        self._name = name
        self._log = OutputLog(partial(_logger.debug, "%s: %s", name))
        self._started = time.monotonic()
        request = encode_arguments(function, args)
        with ExitStack() as stack:
            self._group = stack.enter_context(ProcessGroup())
            self._socket, theirs = socket.socketpair()
            stack.callback(self._socket.close)
            # Closed in this process, so that the end of the child closes the connection.
            with theirs:
                command = child_command(function, "serve_messages")
                self._process = start_child(self._group, command, {"stdin": theirs})
            stack.callback(self._process.__exit__, None, None, None)  # closes its output
            # Added later, so called earlier: __exit__ waits for the end of the child.
            stack.callback(self.kill)
            self._selector = stack.enter_context(selectors.DefaultSelector())
            # So that send() returns while the child is busy and does not read.
            self._socket.setblocking(False)
            self._selector.register(self._socket, selectors.EVENT_READ)
            assert self._process.stdout is not None
            self._selector.register(self._process.stdout, selectors.EVENT_READ)
            self._outgoing, self._incoming = memoryview(frame_message(request)), bytearray()
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child; if it has been closed already, do nothing."""
        self._stack.close()

    def send(self, message: bytes) -> None:
        """Send a message without waiting; :meth:`receive` sends the rest of a large message."""
        self._outgoing = memoryview(bytes(self._outgoing) + frame_message(message))
        self._write_socket()

    def receive(self, timeout: float) -> bytes:
        """Wait for the next reply of the child, and return it.

        The first reply is empty and tells that the function has returned the message handler.

        Args:
            timeout: The time limit in seconds.

        Raises:
            EnginebayError: The function raised an exception; see :func:`~enginebay.isolation.call`.
            ChildCrashedError: The child has ended.
            ChildTimeoutError: The child exceeded the time limit and was ended.
        """
        limit, limit_name = effective_timeout(timeout)
        deadline = time.monotonic() + (timeout if limit is None else limit)
        while (message := self._take_message()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                end_group(self._group, self._process, self._log)
                raise timeout_error(self._collect_output(), limit_name)
            self._exchange_data(left)
        reply: Returned | Raised = decode_value(message, Returned | Raised)
        if isinstance(reply, Raised):
            raise_from_child(f"'{self._name}'", reply)
        return reply.value

    def pause(self) -> None:
        """Suspend the child, whose threads then use no CPU time until :meth:`resume`."""
        # Engines' threads spin after a call, which would slow down another engine that is being
        # timed.
        # Not the whole group: its guard must still notice the end of this process.
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the child after :meth:`pause`."""
        self._process.send_signal(signal.SIGCONT)

    def _exchange_data(self, seconds: float) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        self._selector.modify(self._socket, events)
        for key, ready in self._selector.select(seconds):
            if key.fileobj is not self._socket:
                self._read_log()
                continue
            if ready & selectors.EVENT_READ:
                self._read_socket()
            if ready & selectors.EVENT_WRITE:
                self._write_socket()

    def _read_log(self) -> None:
        assert self._process.stdout is not None
        data = self._process.stdout.read(_LOG_CHUNK_BYTES)
        self._log.feed(data or b"")
        if not data:
            self._selector.unregister(self._process.stdout)

    def _read_socket(self) -> None:
        try:
            data = self._socket.recv(1 << 20)
        except BlockingIOError:
            return
        except ConnectionResetError:  # it ended before it had read all messages
            data = b""
        if not data:
            raise crash_error(self._wait_for_end())
        self._incoming += data

    def _write_socket(self) -> None:
        # A child that has ended is reported by the next read.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while self._outgoing:
                self._outgoing = self._outgoing[self._socket.send(self._outgoing) :]

    def _take_message(self) -> bytes | None:
        """Remove and return the next complete message; return None if there is none yet."""
        size = int.from_bytes(self._incoming[:LENGTH_BYTES], "little")
        if len(self._incoming) < LENGTH_BYTES + size or len(self._incoming) < LENGTH_BYTES:
            return None
        message = bytes(memoryview(self._incoming)[LENGTH_BYTES : LENGTH_BYTES + size])
        del self._incoming[: LENGTH_BYTES + size]
        return message

    def _wait_for_end(self) -> Finished:
        deadline = time.monotonic() + KILL_GRACE_SECONDS
        # A child closes its socket shortly before it ends.
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        self.kill()
        return self._collect_output()

    def _collect_output(self) -> Finished:
        drain_output(self._process, self._log)
        seconds = time.monotonic() - self._started
        return Finished((self._name,), self._process.returncode, self._log.text(), seconds)

    def kill(self) -> None:
        """End the child immediately; a :meth:`receive` in another thread then raises an error."""
        self._group.signal(signal.SIGKILL)
        self._process.wait()
