"""A task for an executor, and its outcome."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal, TypeAlias

import msgspec

from enginebay import errors
from enginebay.errors import EnginebayError

#: Why a task has no value: its process crashed or exceeded the time limit; its worker died, did not
#: answer, or has another version of Enginebay; its function raised; or its reply is damaged.
TaskFaultKind: TypeAlias = Literal[
    "crashed", "time limit", "worker died", "no answer", "other version", "raised", "damaged"
]


class ExecutorTask(msgspec.Struct, frozen=True):
    """A function call that any process with the same version of Enginebay can run.

    Attributes:
        key: The unique key of the task.
        function: ``module:qualname`` of a function that takes ``data`` and returns bytes.
        data: The function's argument.
        limit: The time limit in seconds.
    """

    key: str
    function: str
    data: bytes
    limit: float


class TaskFault(msgspec.Struct, frozen=True):
    """The reason why a task has no result.

    Attributes:
        kind: Which failure it is, such as ``time limit`` or ``worker died``.
        reason: The failure as a sentence.
        hint: What to type next; empty if nothing helps.
        error: The class name in :mod:`enginebay.errors` of the exception that the function raised;
            empty for every other failure.
    """

    kind: TaskFaultKind
    reason: str
    hint: str = ""
    error: str = ""

    def to_error(self) -> EnginebayError:
        """Return an exception of the class that ``error`` names, or else an ``EnginebayError``."""
        # The reply comes from another machine: an unknown class name must not fail here.
        kind = getattr(errors, self.error, None)
        if isinstance(kind, type) and issubclass(kind, EnginebayError):
            with suppress(TypeError):  # a class that requires more arguments than a message
                return kind(self.reason, hint=self.hint or None)
        return EnginebayError(self.reason, hint=self.hint or None)


class TaskOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a task: the function's result, or the reason of the failure.

    Attributes:
        key: The task's key, which the sender fills in; empty in a worker's reply.
        value: The function's result; None if the task failed.
        fault: The reason why there is no value; None if the task succeeded.
        host: The name of the machine that ran the task; empty if unknown.
        attempts: The number of starts of the task, as far as the executor reports them.
        seconds: How long the task ran on the worker, in seconds.
    """

    key: str = ""
    value: bytes | None = None
    fault: TaskFault | None = None
    host: str = ""
    attempts: int = 1
    seconds: float = 0.0
