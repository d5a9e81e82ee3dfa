"""The sender's side of tasks: every one has one outcome, whatever becomes of the workers."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import BrokenExecutor, CancelledError, Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from enginebay.errors import UsageError, one_line
from enginebay_lab.executors.dask import listening
from enginebay_lab.executors.performing import listeners, order_of, perform
from enginebay_lab.executors.tasks import Fault, Outcome, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Future

#: Tasks that are with the executor at a time: more than any cluster has workers, and not so many
#: that the sender and the scheduler have to hold all of a long list.
AT_A_TIME = 1000
#: Seconds between two looks at what has begun and does not end.
LOOK = 0.5
#: Seconds that a worker may take besides its task's limit.
GRACE = 30.0
#: How often a task is sent at most.
ATTEMPTS = 2


class _Begun(NamedTuple):
    """A worker begins with a task."""

    key: str
    host: str


class _Ended(NamedTuple):
    """A future has a result, an error, or was cancelled."""

    key: str
    future: Future[bytes]


@dataclass
class _Sent:
    """A task that is with the executor."""

    task: Task
    futures: list[Future[bytes]] = field(default_factory=list)
    begins: int = 0
    host: str = ""
    deadline: float | None = None

    @property
    def attempts(self) -> int:
        return max(self.begins, len(self.futures), 1)

    def failed(self, fault: Fault) -> Outcome:
        return Outcome(key=self.task.key, fault=fault, host=self.host, attempts=self.attempts)


def check_executor(executor: Any) -> None:
    """Refuse what is no executor.

    Raises:
        UsageError: It is something else; None is this machine.
    """
    if executor is None or isinstance(executor, Executor):
        return
    is_client = hasattr(executor, "get_executor")  # as Dask's Client has it
    raise UsageError(
        f"executor is a {type(executor).__name__}, wanted a concurrent.futures.Executor",
        hint="executor=client.get_executor(pure=False)" if is_client else None,
    )


def run_tasks(
    tasks: Iterable[Task],
    executor: Executor,
    *,
    on_begin: Callable[[str, str], None] | None = None,
) -> Generator[Outcome]:
    """Run tasks on an executor, and yield their outcomes as they come.

    A task is sent again where its worker does not answer after it has begun, once. Where a worker
    dies, the executor itself may begin the task again, as Dask does: the outcome counts both.
    A task has one outcome, also where two workers finish it.

    Args:
        tasks: The tasks, each with a key of its own.
        executor: Any executor.
        on_begin: Called with a task's key and its host's name when it begins, where the executor
            can say so: here, and on Dask.
    """
    with _events() as (topic, events):
        running = _Running(executor, topic, events)
        try:
            yield from running.outcomes(iter(tasks), on_begin)
        finally:
            running.cancel()


@contextmanager
def _events() -> Iterator[tuple[str, SimpleQueue[_Begun | _Ended]]]:
    topic = f"enginebay-{secrets.token_hex(8)}"
    events: SimpleQueue[_Begun | _Ended] = SimpleQueue()

    def hear(key: str, host: str) -> None:
        events.put(_Begun(key, host))

    listeners[topic] = hear
    try:
        with listening(topic, hear):
            yield topic, events
    finally:
        del listeners[topic]


class _Running:
    """The tasks that are with an executor."""

    def __init__(
        self, executor: Executor, topic: str, events: SimpleQueue[_Begun | _Ended]
    ) -> None:
        self._executor = executor
        self._topic = topic
        self._events = events
        self._sent: dict[str, _Sent] = {}
        self._silent_since = time.monotonic()
        self._broken: Fault | None = None

    def outcomes(
        self, tasks: Iterator[Task], on_begin: Callable[[str, str], None] | None
    ) -> Iterator[Outcome]:
        """Send all tasks, and yield each one's outcome once."""
        looked = time.monotonic()
        while True:
            for task in islice(tasks, AT_A_TIME - len(self._sent)):
                yield from self._send(_Sent(task))
            if not self._sent:
                return
            event = self._next()
            if isinstance(event, _Begun):
                if self._begin(event) and on_begin is not None:
                    on_begin(event.key, event.host)
            elif event is not None:
                yield from self._end(event)
            if time.monotonic() - looked > LOOK:
                looked = time.monotonic()
                yield from self._overdue(looked)

    def cancel(self) -> None:
        """Take all tasks back; one that has begun may go on to its end."""
        for sent in self._sent.values():
            for future in sent.futures:
                future.cancel()

    def _send(self, sent: _Sent) -> Iterator[Outcome]:
        task = sent.task
        if self._broken is not None:
            yield sent.failed(self._broken)
            return
        try:
            future = self._executor.submit(perform, order_of(self._topic, task))
        except Exception as err:  # noqa: BLE001  # executors have errors of their own
            text = f"the executor takes no more work: {one_line(err)}"
            self._broken = Fault("worker died", text)
            yield sent.failed(self._broken)
            return
        sent.futures.append(future)
        self._sent[task.key] = sent
        future.add_done_callback(lambda ended: self._events.put(_Ended(task.key, ended)))

    def _next(self) -> _Begun | _Ended | None:
        try:
            event = self._events.get(timeout=LOOK)
        except Empty:
            return None
        self._silent_since = time.monotonic()
        return event

    def _begin(self, event: _Begun) -> bool:
        """Note that a task has begun; False for one that already has its outcome."""
        sent = self._sent.get(event.key)
        if sent is None:
            return False
        sent.begins += 1
        sent.host = event.host
        sent.deadline = time.monotonic() + sent.task.limit + GRACE
        return True

    def _end(self, event: _Ended) -> Iterator[Outcome]:
        sent = self._sent.get(event.key)
        if sent is None:  # it has its outcome already, from another worker
            return
        reply = _result(event.future)
        if isinstance(reply, Fault) and event.future is not sent.futures[-1]:
            return  # it was sent again, and this is the one that was taken back
        del self._sent[event.key]
        if isinstance(reply, Fault):
            yield sent.failed(reply)
        else:
            yield _outcome(reply, sent)
        for future in sent.futures:
            future.cancel()

    def _overdue(self, now: float) -> Iterator[Outcome]:
        """Send again, or give up, what should have ended."""
        limit = max((sent.task.limit for sent in self._sent.values()), default=0.0) + GRACE
        all_silent = now - self._silent_since > limit
        for key, sent in list(self._sent.items()):
            begun = sent.deadline is not None and now > sent.deadline
            if not begun and not all_silent:
                continue
            del self._sent[key]
            for future in sent.futures:
                future.cancel()
            if begun and len(sent.futures) < ATTEMPTS:
                sent.deadline = None
                yield from self._send(sent)
                continue
            where = f"{sent.host}, which began it," if sent.host else "a worker"
            waited = sent.task.limit + GRACE
            yield sent.failed(Fault("no answer", f"{where} has not answered within {waited:g} s"))


def _outcome(reply: bytes, sent: _Sent) -> Outcome:
    """What a worker sent, or the fault of one that sent something else."""
    try:
        outcome = msgspec.msgpack.decode(reply, type=Outcome)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as err:
        return sent.failed(Fault("damaged", f"its worker sent no outcome: {one_line(err)}"))
    if (outcome.value is None) == (outcome.fault is None):
        return sent.failed(Fault("damaged", "its worker sent an outcome without a value"))
    return msgspec.structs.replace(outcome, key=sent.task.key, attempts=sent.attempts)


def _result(future: Future[bytes]) -> bytes | Fault:
    """What a future holds, or why it holds nothing."""
    try:
        return future.result()
    except CancelledError as err:
        return Fault("worker died", f"the executor gave it up: {one_line(err)}")
    except Exception as err:  # noqa: BLE001  # executors have errors of their own
        died = isinstance(err, BrokenExecutor) or type(err).__name__ == "KilledWorker"  # of Dask
        return Fault("worker died" if died else "raised", one_line(err))
