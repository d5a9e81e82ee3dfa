"""Progress on stderr: a line for each step on a terminal, otherwise a line every ten seconds."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from enginebay.operations import Step

#: Interval of the lines if stderr is not a terminal.
_INTERVAL_SECONDS = 10.0


@contextmanager
def progress() -> Iterator[Callable[[Step], None]]:
    """Yield a function that is called with each step of a command, and shows the step on stderr.

    On a terminal, the lines of the steps are removed before the final table is printed. The lines
    remain after an error, or if stdout is redirected.
    """
    # The lines of -v would tear lines that are drawn again.
    if not sys.stderr.isatty() or logging.getLogger("enginebay").isEnabledFor(logging.DEBUG):
        with _print_regularly() as watch:
            yield watch
        return
    from enginebay.operations import show_steps

    # Check stdout before rich replaces it.
    with show_steps(transient=sys.stdout.isatty()) as watch:
        yield watch


@contextmanager
def _print_regularly() -> Iterator[Callable[[Step], None]]:
    """Yield a function that is called with each step; print the current step every ten seconds.

    Many CI systems stop a job that prints nothing.
    """
    ended, start = Event(), monotonic()
    steps: list[Step] = []

    def print_step() -> None:
        while not ended.wait(_INTERVAL_SECONDS):
            if steps and steps[-1].seconds is None:
                text = f"… {steps[-1].name}, {monotonic() - start:.0f} s so far  {steps[-1].detail}"
                sys.stderr.write(f"{text.rstrip()}\n")

    # A daemon thread does not prolong the end of an interrupted process.
    thread = Thread(target=print_step, daemon=True)
    thread.start()
    try:
        yield steps.append
    finally:
        ended.set()
        thread.join()
