"""Interruption by a signal: the exception is also stored, in case other code catches it.

Foreign code may catch every exception: torch's lazy imports treated 10 of 124 signals as a failed
import and continued. Code that starts the next step, or publishes a result, therefore raises a
stored interruption again. Only the command line handles signals; without it nothing is stored.
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
    """Clear the stored interruptions before the next command."""
    _interruptions.clear()
