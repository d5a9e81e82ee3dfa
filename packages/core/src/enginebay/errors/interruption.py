"""Interruption by a signal: the exception is raised, and stored in case other code catches it.

Code of other libraries may catch every exception: of 124 signals, torch's lazy imports treated 10
as a failed import and continued. Code that starts the next step, or publishes a result, therefore
raises a stored interruption again. Only the command line stores interruptions; programs that
import Enginebay handle signals on their own.
"""

from __future__ import annotations

from typing import NoReturn

_interruptions: list[KeyboardInterrupt] = []


def interrupt(error: KeyboardInterrupt) -> NoReturn:
    """Store an interruption and raise it.

    Raises:
        KeyboardInterrupt: Always; the exception is ``error``.
    """
    _interruptions.append(error)
    raise error


def raise_if_interrupted() -> None:
    """Raise the stored interruption, if there is one.

    Raises:
        KeyboardInterrupt: The first exception that :func:`interrupt` has raised.
    """
    if _interruptions:
        raise _interruptions[0]


def forget_interruption() -> None:
    """Clear the stored interruptions at the end of a command."""
    _interruptions.clear()
