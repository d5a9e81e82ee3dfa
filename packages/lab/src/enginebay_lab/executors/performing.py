"""The worker's side of a task."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import msgspec

from enginebay import __version__
from enginebay.errors import ChildCrashedError, ChildTimeoutError, EnginebayError
from enginebay_lab.executors.children import call_in_child
from enginebay_lab.executors.tasks import Fault, Outcome, Task
from enginebay_lab.resources import host_name

if TYPE_CHECKING:
    from collections.abc import Callable


class Order(msgspec.Struct, frozen=True):
    """A task on its way to a worker.

    Attributes:
        version: The version of Enginebay that it is for.
        topic: The name under which its sender hears of it.
        task: The task.
    """

    version: str
    topic: str
    task: Task


class _Version(msgspec.Struct):
    """The part of an order that every version of Enginebay can read."""

    version: str


#: Who in this process hears that a task begins, by topic: called with its key and the host's name.
listeners: dict[str, Callable[[str, str], None]] = {}


def perform(order: bytes) -> bytes:
    """Run a task, in whatever process and thread an executor calls this.

    Args:
        order: An encoded :class:`Order`.

    Returns:
        An encoded :class:`Outcome`, which holds every fault: nothing is raised.
    """
    host = host_name()
    try:
        found = msgspec.msgpack.decode(order, type=Order)
    except msgspec.MsgspecError:  # of a version that had other fields
        found = None
    version = msgspec.msgpack.decode(order, type=_Version).version
    if found is None or version != __version__:
        fault = Fault(
            "other version",
            f"{host} has Enginebay {__version__}, and the sender {version}",
            f"pip install enginebay=={version} on {host}",
        )
        return msgspec.msgpack.encode(Outcome(fault=fault, host=host))
    _announce(found, host)
    start = time.perf_counter()
    outcome = _outcome(found.task)
    seconds = time.perf_counter() - start
    return msgspec.msgpack.encode(msgspec.structs.replace(outcome, host=host, seconds=seconds))


def _announce(order: Order, host: str) -> None:
    """Say that a task begins, where its sender can hear it."""
    if listener := listeners.get(order.topic):
        listener(order.task.key, host)
    elif "distributed" in sys.modules:
        from enginebay_lab.executors.dask import announce

        announce(order.topic, order.task.key, host)


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
        fault = Fault("raised", str(err), err.hint or "")
    return Outcome(fault=fault)
