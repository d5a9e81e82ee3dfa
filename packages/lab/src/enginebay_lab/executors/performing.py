"""The worker's side of a task."""

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
from enginebay_lab.executors.children import call_in_child
from enginebay_lab.executors.tasks import Fault, Outcome, Task
from enginebay_lab.resources import host_name

if TYPE_CHECKING:
    from collections.abc import Callable


#: Who in this process hears that a task begins, by topic: called with its key and the host's name.
listeners: dict[str, Callable[[str, str], None]] = {}


def order_of(topic: str, task: Task) -> bytes:
    """Return what :func:`perform` takes.

    Args:
        topic: The name under which the sender hears of the task.
        task: The task.
    """
    return msgspec.msgpack.encode((__version__, topic, task))


def perform(order: bytes) -> bytes:
    """Run a task, in whatever process and thread an executor calls this.

    Args:
        order: What :func:`order_of` returned, in any version of Enginebay.

    Returns:
        An encoded :class:`Outcome`, which holds every fault: nothing is raised.
    """
    host = host_name()
    version, topic, raw = msgspec.msgpack.decode(order, type=tuple[str, str, msgspec.Raw])
    if version != __version__:
        fault = Fault(
            "other version",
            f"{host} has Enginebay {__version__}, and the sender {version}",
            f"pip install enginebay=={version} on {host}",
        )
        return msgspec.msgpack.encode(Outcome(fault=fault, host=host))
    task = msgspec.msgpack.decode(raw, type=Task)
    _announce(topic, task.key, host)
    start = time.perf_counter()
    outcome = _outcome(task)
    seconds = time.perf_counter() - start
    return msgspec.msgpack.encode(msgspec.structs.replace(outcome, host=host, seconds=seconds))


def _announce(topic: str, key: str, host: str) -> None:
    """Say that a task begins, where its sender can hear it."""
    if listener := listeners.get(topic):
        listener(key, host)
    elif "distributed" in sys.modules:
        from enginebay_lab.executors.dask import announce

        announce(topic, key, host)


def _outcome(task: Task) -> Outcome:
    try:
        return Outcome(value=call_in_child(task.function, task.data, task.limit))
    except ChildTimeoutError:
        fault = Fault("time limit", f"it ran past its limit of {task.limit:g} s")
    except ChildCrashedError as err:
        # One that the task raised is about a process of its own, and has no ending here.
        reason = f"its process {err.ending}" if err.ending else str(err).partition("; ")[0]
        fault = Fault("crashed", reason, err.hint or "")
    except EnginebayError as err:
        # An IsolationError tells of an exception that is none of Enginebay.
        kind = "" if isinstance(err, IsolationError) else type(err).__name__
        fault = Fault("raised", str(err), err.hint or "", kind)
    return Outcome(fault=fault)
