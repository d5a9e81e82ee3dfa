"""Progress on a terminal: a line a step, with its seconds; nothing elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from enginebay.operations import Step


@contextmanager
def progress() -> Iterator[Callable[[Step], None] | None]:
    """Yield a function that shows each step; None where stderr is not a terminal.

    The lines disappear before the closing table where that is seen too, and stay where it is
    not: after an error, or with stdout redirected.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from enginebay.operations import show_steps

    # Rich replaces stdout, so it is looked at before.
    with show_steps(transient=sys.stdout.isatty()) as watch:
        yield watch
