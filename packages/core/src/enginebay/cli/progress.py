"""Progress on a terminal: a line a step, with its seconds; nothing elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

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
    from rich.console import Console
    from rich.progress import Progress

    shown_twice = sys.stdout.isatty()  # rich replaces stdout below
    console = Console(stderr=True)
    with Progress(_column(), console=console, transient=True, refresh_per_second=5) as shown:
        shown.live.transient = False
        tasks: list[tuple[Step, Any]] = []  # kept, so that no other step gets an id twice

        def watch(step: Step) -> None:
            if not tasks or tasks[-1][0] is not step:
                tasks.append((step, shown.add_task(step.name, total=1, step=step)))
            shown.update(tasks[-1][1], completed=step.seconds is not None)

        yield watch
        shown.live.transient = shown_twice


def _column() -> Any:
    """Return the column with a mark, the step's name, its seconds and its detail."""
    from rich.progress import SpinnerColumn, Task
    from rich.table import Column
    from rich.text import Text

    class Line(SpinnerColumn):
        def render(self, task: Task) -> Text:
            step: Step = task.fields["step"]
            mark = Text("✗", "red") if step.failed else Text("✓", "green")
            if not task.finished:
                mark = cast("Text", super().render(task))
            seconds = task.elapsed or 0.0 if step.seconds is None else step.seconds
            text = f" {step.name:<10}{seconds:>7.1f} s  {step.detail}".rstrip()
            return Text.assemble(mark, text)

    # A detail too long for the terminal is cut: a second line would read as another step.
    return Line(table_column=Column(no_wrap=True, overflow="ellipsis"))
