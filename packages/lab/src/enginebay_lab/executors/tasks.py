"""A task and its outcome: data in, data out."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

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
    """

    kind: FaultKind
    reason: str
    hint: str = ""


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
