"""A Python function in a child process that is called again and again."""

from __future__ import annotations

import contextlib
import logging
import selectors
import signal
import socket
import time
from contextlib import ExitStack
from typing import Any, Self

from enginebay.isolation.child import FRAME, Raised, Returned, decode, framed
from enginebay.isolation.function_calls import child_command, encoded, raise_again
from enginebay.isolation.limit import shortest
from enginebay.isolation.process_group import GRACE, Group, Log, read_rest
from enginebay.isolation.programs import Finished, crashed, end, overran, start

_logger = logging.getLogger("enginebay.isolation")

_PIECE = 1 << 16


class Worker:
    """A context that holds a child process; leaving it ends the process and all it has started.

    The function is called once, with the arguments, and returns a function from bytes to bytes,
    which is called with each message. Nothing here waits for the child but :meth:`receive`.

    Args:
        name: Its name in messages.
        function: ``module:qualname``, as for :func:`~enginebay.isolation.call`.
        *args: Its positional arguments.

    Raises:
        IsolationError: It cannot be started, or an argument cannot travel.
    """

    def __init__(self, name: str, function: str, /, *args: Any) -> None:
        self._name = name
        self._log = Log(_logger.debug)
        self._started = time.monotonic()
        request = encoded(function, args)
        with ExitStack() as stack:
            self._group = stack.enter_context(Group())
            self._socket, theirs = socket.socketpair()
            stack.callback(self._socket.close)
            with theirs:
                command = child_command(function, "converse")
                self._process = start(self._group, command, {"stdin": theirs})
            stack.callback(self._process.__exit__, None, None, None)  # closes its output
            stack.callback(self.kill)
            self._selector = stack.enter_context(selectors.DefaultSelector())
            self._socket.setblocking(False)
            self._selector.register(self._socket, selectors.EVENT_READ)
            assert self._process.stdout is not None
            self._selector.register(self._process.stdout, selectors.EVENT_READ)
            self._outgoing, self._incoming = memoryview(framed(request)), bytearray()
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child; a second call does nothing."""
        self._stack.close()

    def send(self, message: bytes) -> None:
        """Begin to send a message; :meth:`receive` sends the rest of it."""
        self._outgoing = memoryview(bytes(self._outgoing) + framed(message))
        self._write()

    def receive(self, timeout: float) -> bytes:
        """Return the next reply: the first is empty, once the function has returned.

        Args:
            timeout: Seconds that it may take.

        Raises:
            EnginebayError: The function raised it: as :func:`~enginebay.isolation.call` says.
            ChildCrashedError: The child has ended.
            ChildTimeoutError: It took too long, and was ended.
        """
        limit, limit_name = shortest(timeout)
        deadline = time.monotonic() + (timeout if limit is None else limit)
        while (message := self._take()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                end(self._group, self._process, self._log)
                raise overran(self._finished(), limit_name)
            self._exchange(left)
        reply: Returned | Raised = decode(message, Returned | Raised)
        if isinstance(reply, Raised):
            raise_again(f"'{self._name}'", reply)
        return reply.value

    def pause(self) -> None:
        """Stop the child where it is; its threads use no processor until :meth:`resume`.

        Only the child is stopped: the guard of its group must see this process end.
        """
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the child go on."""
        self._process.send_signal(signal.SIGCONT)

    def _exchange(self, seconds: float) -> None:
        """Read and write what can be, at once or after a wait."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        self._selector.modify(self._socket, events)
        for key, ready in self._selector.select(seconds):
            if key.fileobj is not self._socket:
                self._read_log()
                continue
            if ready & selectors.EVENT_READ:
                self._read()
            if ready & selectors.EVENT_WRITE:
                self._write()

    def _read_log(self) -> None:
        assert self._process.stdout is not None
        data = self._process.stdout.read(_PIECE)
        self._log.feed(data or b"")
        if not data:
            self._selector.unregister(self._process.stdout)

    def _read(self) -> None:
        try:
            data = self._socket.recv(1 << 20)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            raise crashed(self._ended())
        self._incoming += data

    def _write(self) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError):  # reading tells of an end
            while self._outgoing:
                self._outgoing = self._outgoing[self._socket.send(self._outgoing) :]

    def _take(self) -> bytes | None:
        """Return the next whole message that has come."""
        size = int.from_bytes(self._incoming[:FRAME], "little")
        if len(self._incoming) < FRAME + size or len(self._incoming) < FRAME:
            return None
        message = bytes(memoryview(self._incoming)[FRAME : FRAME + size])
        del self._incoming[: FRAME + size]
        return message

    def _ended(self) -> Finished:
        """Wait for a child that has closed its socket."""
        deadline = time.monotonic() + GRACE
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        self.kill()
        return self._finished()

    def _finished(self) -> Finished:
        read_rest(self._process, self._log)
        seconds = time.monotonic() - self._started
        return Finished((self._name,), self._process.returncode, self._log.text(), seconds)

    def kill(self) -> None:
        """End the child at once: :meth:`receive`, which another thread may be in, then raises."""
        self._group.signal(signal.SIGKILL)
        self._process.wait()
