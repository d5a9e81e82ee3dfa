"""An interruption: raised where the signal arrives, and remembered in case it is swallowed there.

Foreign code catches everything in places: torch's lazy imports, for one, took 10 of 124 signals
for a failed import and went on. Whoever starts the next piece of work, or publishes what was
made, therefore raises a remembered interruption again. The command line alone handles signals;
under any other caller nothing is ever remembered.
"""

from __future__ import annotations

from typing import NoReturn

_remembered: list[KeyboardInterrupt] = []


def interrupt(error: KeyboardInterrupt) -> NoReturn:
    """Raise an interruption and remember it.

    Raises:
        KeyboardInterrupt: ``error``.
    """
    _remembered.append(error)
    raise error


def raise_if_interrupted() -> None:
    """Raise the interruption that was remembered; return where there was none.

    Raises:
        KeyboardInterrupt: The one that :func:`interrupt` raised first.
    """
    if _remembered:
        raise _remembered[0]


def forget_interruption() -> None:
    """Forget what was remembered: another command begins."""
    _remembered.clear()
