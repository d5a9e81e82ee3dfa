"""Runs a task on a worker: decodes it, calls a child process, and encodes the outcome."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import msgspec

from enginebay import __version__
from enginebay.errors import (
    ChildCrashedError,
    ChildTimeoutError,
    EnginebayError,
    IsolationError,
)
from enginebay_lab.executors.child_pool import call_in_child
from enginebay_lab.executors.tasks import ExecutorTask, TaskFault, TaskOutcome
from enginebay_lab.resources import host_name

if TYPE_CHECKING:
    from collections.abc import Callable


#: Callbacks in this process for the start of a task, by topic. Their arguments are key and host.
start_listeners: dict[str, Callable[[str, str], None]] = {}


def encode_order(topic: str, task: ExecutorTask) -> bytes:
    """Encode a task for :func:`perform_order`.

    Args:
        topic: The topic on which the sender listens for the start of the task.
        task: The function call that the worker runs.
    """
    return msgspec.msgpack.encode((__version__, topic, task))


def perform_order(order: bytes) -> bytes:
    """Run a task; executors call this function in any process and thread.

    Args:
        order: The result of :func:`encode_order`, which may come from another version of Enginebay.

    Returns:
        An encoded :class:`TaskOutcome`. If the task fails, the outcome contains the reason, and no
        exception is raised.
    """
    host = host_name()
    # Another version's task may have other fields: it is decoded after the versions are compared.
    version, topic, raw = msgspec.msgpack.decode(order, type=tuple[str, str, msgspec.Raw])
    if version != __version__:
        fault = TaskFault(
            "other version",
            f"{host} has Enginebay {__version__}, but the sender has {version}",
            f"on {host}: pip install enginebay=={version}",
        )
        return msgspec.msgpack.encode(TaskOutcome(fault=fault, host=host))
    task = msgspec.msgpack.decode(raw, type=ExecutorTask)
    _report_start(topic, task.key, host)
    start = time.perf_counter()
    outcome = _run_task(task)
    seconds = time.perf_counter() - start
    return msgspec.msgpack.encode(msgspec.structs.replace(outcome, host=host, seconds=seconds))


def _report_start(topic: str, key: str, host: str) -> None:
    if listener := start_listeners.get(topic):
        listener(key, host)
    elif "distributed" in sys.modules:
        from enginebay_lab.executors.dask import announce_start

        announce_start(topic, key, host)


def _run_task(task: ExecutorTask) -> TaskOutcome:
    try:
        return TaskOutcome(value=call_in_child(task.function, task.data, task.limit))
    except ChildTimeoutError:
        fault = TaskFault("time limit", f"the task exceeded its time limit of {task.limit:g} s")
    except ChildCrashedError as err:
        # Without an ending, the task raised it: a process that the task itself started crashed.
        reason = f"its process {err.ending}" if err.ending else str(err).partition("; ")[0]
        fault = TaskFault("crashed", reason, err.hint or "")
    except EnginebayError as err:
        # An IsolationError wraps an exception of another package, so its class means nothing here.
        kind = "" if isinstance(err, IsolationError) else type(err).__name__
        fault = TaskFault("raised", str(err), err.hint or "", kind)
    return TaskOutcome(fault=fault)
