"""One line out of an exception that fills a screen."""

from __future__ import annotations

import re

from enginebay.errors import EnginebayError

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LIMIT = 300

#: Where torch's first line only announces the reason.
_ANNOUNCED = re.compile(r"^(?:Constraints violated|Found the following conflicts)")
_DETAIL = re.compile(r"^\s*- (.+?)(?:\. |\.?$)", re.MULTILINE)


def first_line(err: BaseException) -> str:
    """The first line of the message that is not blank."""
    text = _COLOUR.sub("", str(err))
    if _ANNOUNCED.match(text) and (detail := _DETAIL.search(text)):
        return detail[1]
    line = next((line.strip() for line in text.splitlines() if line.strip()), "(no message)")
    return line if len(line) <= _LIMIT else f"{line[: _LIMIT - 1]}…"


def reason(err: BaseException) -> str:
    r"""Why something failed: the type and first line of the exception that others only wrap.

    Enginebay's own errors are one line that says it all, and stay as they are.

    Example:
        >>> reason(ValueError("no\nway"))
        'ValueError: no'
    """
    while err.__cause__ is not None and not isinstance(err, EnginebayError):
        err = err.__cause__
    if isinstance(err, EnginebayError):
        return str(err)
    return f"{type(err).__name__}: {first_line(err)}"
