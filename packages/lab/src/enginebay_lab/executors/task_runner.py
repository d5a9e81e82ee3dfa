"""Sends tasks to an executor; each task has exactly one outcome, even if workers die."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import BrokenExecutor, CancelledError, Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from enginebay.errors import UsageError, one_line
from enginebay_lab.executors.dask import listen_to_starts
from enginebay_lab.executors.task_worker import encode_order, perform_order, start_listeners
from enginebay_lab.executors.tasks import ExecutorTask, TaskFault, TaskOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Future

#: The number of submitted tasks without an outcome: more than a cluster has workers, but few enough
#: that neither the sender nor the scheduler has a long list in memory.
MAX_IN_FLIGHT = 1000
#: The interval of the search for overdue tasks.
POLL_SECONDS = 0.5
#: The time for a worker's answer, in addition to the time limit of its task.
GRACE_SECONDS = 30.0
#: How many times a task is sent at most.
MAX_ATTEMPTS = 2


class _StartEvent(NamedTuple):
    """The event that a worker has started a task."""

    key: str
    host: str


class _EndEvent(NamedTuple):
    """The event that a future has ended, with a result, an error or a cancellation."""

    key: str
    future: Future[bytes]


@dataclass
class _SentTask:
    """A task that was submitted to the executor and has no outcome yet."""

    task: ExecutorTask
    futures: list[Future[bytes]] = field(default_factory=list)
    starts: int = 0
    host: str = ""
    deadline: float | None = None

    @property
    def attempts(self) -> int:
        return max(self.starts, len(self.futures), 1)

    def fail_with(self, fault: TaskFault) -> TaskOutcome:
        return TaskOutcome(key=self.task.key, fault=fault, host=self.host, attempts=self.attempts)


def check_executor(executor: object) -> None:
    """Check that a value is an executor or None.

    Raises:
        UsageError: The value has another type.
    """
    if executor is None or isinstance(executor, Executor):
        return
    is_client = hasattr(executor, "get_executor")  # Dask's Client has this method
    raise UsageError(
        f"executor: expected a concurrent.futures.Executor, found {type(executor).__name__}",
        hint="executor=client.get_executor(pure=False)" if is_client else None,
    )


def run_tasks(
    tasks: Iterable[ExecutorTask],
    executor: Executor,
    *,
    on_begin: Callable[[str, str], None] | None = None,
) -> Generator[TaskOutcome]:
    """Run tasks on an executor, and yield their outcomes in the order in which they end.

    If a worker starts a task and does not answer in time, the task is sent a second time. If a
    worker dies, the executor itself may start the task again, as Dask does. The field
    ``attempts`` of the outcome counts all starts of the task. A task has one outcome, even if two
    workers finish it.

    Args:
        tasks: The tasks; each has a unique key.
        executor: Any ``concurrent.futures.Executor``.
        on_begin: Called when a task starts, with the key of the task and the name of the host. Only
            the executor of this machine and Dask report when a task starts.
    """
    with _open_events() as (topic, events):
        in_flight = _TasksInFlight(executor, topic, events)
        try:
            yield from in_flight.yield_outcomes(iter(tasks), on_begin)
        finally:
            in_flight.cancel_all()


@contextmanager
def _open_events() -> Iterator[tuple[str, SimpleQueue[_StartEvent | _EndEvent]]]:
    topic = f"enginebay-{secrets.token_hex(8)}"
    events: SimpleQueue[_StartEvent | _EndEvent] = SimpleQueue()

    def receive_start(key: str, host: str) -> None:
        events.put(_StartEvent(key, host))

    start_listeners[topic] = receive_start
    try:
        with listen_to_starts(topic, receive_start):
            yield topic, events
    finally:
        del start_listeners[topic]


class _TasksInFlight:
    """The tasks that were submitted to an executor and have no outcome yet."""

    def __init__(
        self, executor: Executor, topic: str, events: SimpleQueue[_StartEvent | _EndEvent]
    ) -> None:
        self._executor = executor
        self._topic = topic
        self._events = events
        self._sent: dict[str, _SentTask] = {}
        self._last_event = time.monotonic()
        self._executor_fault: TaskFault | None = None

    def yield_outcomes(
        self, tasks: Iterator[ExecutorTask], on_begin: Callable[[str, str], None] | None
    ) -> Iterator[TaskOutcome]:
        """Send all tasks, and yield one outcome for each task."""
        last_poll = time.monotonic()
        while True:
            # `tasks` may be a generator: it is read only as far as tasks can be sent.
            for task in islice(tasks, MAX_IN_FLIGHT - len(self._sent)):
                yield from self._send_task(_SentTask(task))
            if not self._sent:
                return
            event = self._next_event()
            if isinstance(event, _StartEvent):
                if self._record_start(event) and on_begin is not None:
                    on_begin(event.key, event.host)
            elif event is not None:
                yield from self._handle_end(event)
            if time.monotonic() - last_poll > POLL_SECONDS:
                last_poll = time.monotonic()
                yield from self._handle_overdue(last_poll)

    def cancel_all(self) -> None:
        """Cancel all tasks; a task that has started may still run to its end."""
        for sent in self._sent.values():
            for future in sent.futures:
                future.cancel()

    def _send_task(self, sent: _SentTask) -> Iterator[TaskOutcome]:
        """Submit a task; if the executor accepts no more tasks, yield a failed outcome."""
        task = sent.task
        if self._executor_fault is not None:
            yield sent.fail_with(self._executor_fault)
            return
        try:
            future = self._executor.submit(perform_order, encode_order(self._topic, task))
        except Exception as err:  # noqa: BLE001  # executors have errors of their own
            text = f"the executor accepts no more tasks: {one_line(err)}"
            self._executor_fault = TaskFault("worker died", text)
            yield sent.fail_with(self._executor_fault)
            return
        sent.futures.append(future)
        self._sent[task.key] = sent
        future.add_done_callback(lambda ended: self._events.put(_EndEvent(task.key, ended)))

    def _next_event(self) -> _StartEvent | _EndEvent | None:
        try:
            event = self._events.get(timeout=POLL_SECONDS)
        except Empty:
            return None
        self._last_event = time.monotonic()
        return event

    def _record_start(self, event: _StartEvent) -> bool:
        """Record the start of a task, and return True; return False if the task has an outcome."""
        sent = self._sent.get(event.key)
        if sent is None:
            return False
        sent.starts += 1
        sent.host = event.host
        sent.deadline = time.monotonic() + sent.task.limit + GRACE_SECONDS
        return True

    def _handle_end(self, event: _EndEvent) -> Iterator[TaskOutcome]:
        sent = self._sent.get(event.key)
        if sent is None:  # another worker has already sent the outcome
            return
        reply = _read_future(event.future)
        if isinstance(reply, TaskFault) and event.future is not sent.futures[-1]:
            return  # the task was sent again, and this future was cancelled
        del self._sent[event.key]
        if isinstance(reply, TaskFault):
            yield sent.fail_with(reply)
        else:
            yield _decode_outcome(reply, sent)
        for future in sent.futures:  # a second attempt that still waits in a queue is not needed
            future.cancel()

    def _handle_overdue(self, now: float) -> Iterator[TaskOutcome]:
        """Send overdue tasks again; yield a failed outcome for each task that is given up."""
        # An executor that never reports a start sets no deadlines: its tasks are given up once no
        # event at all has arrived for the longest limit.
        limit = max((sent.task.limit for sent in self._sent.values()), default=0.0) + GRACE_SECONDS
        is_silent = now - self._last_event > limit
        for key, sent in list(self._sent.items()):
            is_overdue = sent.deadline is not None and now > sent.deadline
            if not is_overdue and not is_silent:
                continue
            del self._sent[key]
            for future in sent.futures:
                future.cancel()
            if is_overdue and len(sent.futures) < MAX_ATTEMPTS:
                sent.deadline = None  # until the second worker reports its start
                yield from self._send_task(sent)
                continue
            worker = f"{sent.host}, which started the task," if sent.host else "a worker"
            waited = sent.task.limit + GRACE_SECONDS
            reason = f"{worker} has not answered within {waited:g} s"
            yield sent.fail_with(TaskFault("no answer", reason))


def _decode_outcome(reply: bytes, sent: _SentTask) -> TaskOutcome:
    """Return the outcome in a worker's reply; for a damaged reply, a failed outcome."""
    try:
        outcome = msgspec.msgpack.decode(reply, type=TaskOutcome)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as err:
        reason = f"the worker's reply cannot be decoded: {one_line(err)}"
        return sent.fail_with(TaskFault("damaged", reason))
    if (outcome.value is None) == (outcome.fault is None):
        return sent.fail_with(TaskFault("damaged", "the worker's reply is not a result or a fault"))
    return msgspec.structs.replace(outcome, key=sent.task.key, attempts=sent.attempts)


def _read_future(future: Future[bytes]) -> bytes | TaskFault:
    """Return a future's result; if the future failed or was cancelled, the reason."""
    try:
        return future.result()
    except CancelledError as err:
        return TaskFault("worker died", f"the executor cancelled the task: {one_line(err)}")
    except Exception as err:  # noqa: BLE001  # executors have errors of their own
        # By name: Dask's KilledWorker can be named only where Dask is installed.
        died = isinstance(err, BrokenExecutor) or type(err).__name__ == "KilledWorker"
        return TaskFault("worker died" if died else "raised", one_line(err))
