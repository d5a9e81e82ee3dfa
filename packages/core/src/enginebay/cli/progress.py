"""Progress on a terminal: a line a step, with its seconds; elsewhere one every ten seconds."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from enginebay.operations import Step

#: Between two lines where nobody watches.
_SECONDS = 10.0


@contextmanager
def progress() -> Iterator[Callable[[Step], None]]:
    """Yield a function that shows each step.

    The lines disappear before the closing table where that is seen too, and stay where it is
    not: after an error, or with stdout redirected.
    """
    if not sys.stderr.isatty():
        with _now_and_then() as watch:
            yield watch
        return
    from enginebay.operations import show_steps

    # Rich replaces stdout, so it is looked at before.
    with show_steps(transient=sys.stdout.isatty()) as watch:
        yield watch


@contextmanager
def _now_and_then() -> Iterator[Callable[[Step], None]]:
    """Print what runs every ten seconds: many systems end a job that is silent for long."""
    ended, start = Event(), monotonic()
    steps: list[Step] = []

    def tell() -> None:
        while not ended.wait(_SECONDS):
            if steps and steps[-1].seconds is None:
                text = f"… {steps[-1].name}, {monotonic() - start:.0f} s so far  {steps[-1].detail}"
                sys.stderr.write(f"{text.rstrip()}\n")

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield steps.append
    finally:
        ended.set()
        thread.join()
