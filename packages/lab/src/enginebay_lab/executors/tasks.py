"""A task and its outcome: data in, data out."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal, TypeAlias

import msgspec

from enginebay import errors
from enginebay.errors import EnginebayError

#: Why a task has no value: its process crashed or ran past its limit; the worker that had it died,
#: never answered, has another version of Enginebay, could not run it for another reason, or sent
#: something else than an outcome.
FaultKind: TypeAlias = Literal[
    "crashed", "time limit", "worker died", "no answer", "other version", "raised", "damaged"
]


class Task(msgspec.Struct, frozen=True):
    """Work for any process with this version of Enginebay.

    Attributes:
        key: Its identity.
        function: ``module:qualname``: takes ``data`` and returns bytes.
        data: What the function takes.
        limit: Seconds that it may take.
    """

    key: str
    function: str
    data: bytes
    limit: float


class Fault(msgspec.Struct, frozen=True):
    """Why a task has no value.

    Attributes:
        kind: What happened.
        reason: The same as a sentence.
        hint: What to type next; empty where nothing helps.
        error: The class in :mod:`enginebay.errors` of what its function raised; empty where that
            is not what happened.
    """

    kind: FaultKind
    reason: str
    hint: str = ""
    error: str = ""

    def exception(self) -> EnginebayError:
        """The same as an error; a stranger's text that names none of Enginebay is the plain one."""
        kind = getattr(errors, self.error, None)
        if isinstance(kind, type) and issubclass(kind, EnginebayError):
            with suppress(TypeError):  # one that takes more than a message
                return kind(self.reason, hint=self.hint or None)
        return EnginebayError(self.reason, hint=self.hint or None)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a task.

    Attributes:
        key: The task's; empty until its sender has it back.
        value: What its function returned; None where it has a fault.
        fault: Why it has no value.
        host: The name of the machine that ran it; empty where nothing says it.
        attempts: How often it was begun, as far as the executor says.
        seconds: How long it took there.
    """

    key: str = ""
    value: bytes | None = None
    fault: Fault | None = None
    host: str = ""
    attempts: int = 1
    seconds: float = 0.0
