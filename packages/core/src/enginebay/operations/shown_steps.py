"""Steps as they happen: in a notebook, on a terminal, or as lines."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from enginebay.display import html_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from enginebay.operations.steps import Step


@contextmanager
def show_steps(*, transient: bool = False) -> Iterator[Callable[[Step], None]]:
    """Yield a function that shows each step, with its seconds.

    In a notebook the steps are a table that grows. On a terminal they are lines on stderr, and
    anywhere else a line on stderr for each step that has ended.

    Args:
        transient: The lines on a terminal disappear at the end, but not after an error.
    """
    if _is_notebook():
        yield _watch_in_notebook()
    elif sys.stderr.isatty():
        with _on_terminal(transient=transient) as watch:
            yield watch
    else:
        yield _print_ended


def _is_notebook() -> bool:
    """True if this process is a notebook's kernel."""
    python = sys.modules.get("IPython")
    return python is not None and hasattr(python.get_ipython(), "kernel")


def _watch_in_notebook() -> Callable[[Step], None]:
    # Not rich's own display, which needs ipywidgets.
    ipython: Any = import_module("IPython.display")
    steps: list[Step] = []
    handle = ipython.display(ipython.HTML(""), display_id=True)

    def watch(step: Step) -> None:
        if not any(known is step for known in steps):
            steps.append(step)
        rows = [(_mark(one), one.name, _seconds(one), one.detail) for one in steps]
        shown = html_table(("", "step", "seconds", ""), rows, right=("seconds",))
        handle.update(ipython.HTML(shown))

    return watch


def _mark(step: Step) -> str:
    if step.seconds is None:
        return "…"
    return "✗" if step.failed else "✓"


def _seconds(step: Step) -> str:
    return "" if step.seconds is None else f"{step.seconds:.1f}"


def _print_ended(step: Step) -> None:
    if step.seconds is not None:
        line = f"{_mark(step)} {step.name:<17}{_seconds(step):>7} s  {step.detail}".rstrip()
        sys.stderr.write(f"{line}\n")


@contextmanager
def _on_terminal(*, transient: bool) -> Iterator[Callable[[Step], None]]:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(_column(), console=console, transient=True, refresh_per_second=5) as shown:
        shown.live.transient = False
        tasks: list[tuple[Step, Any]] = []  # kept, so that no other step gets an id twice

        def watch(step: Step) -> None:
            if not tasks or tasks[-1][0] is not step:
                tasks.append((step, shown.add_task(step.name, total=1, step=step)))
            shown.update(tasks[-1][1], completed=step.seconds is not None)

        yield watch
        shown.live.transient = transient


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
            text = f" {step.name:<17}{seconds:>7.1f} s  {step.detail}".rstrip()
            return Text.assemble(mark, text)

    # A detail too long for the terminal is cut: a second line would read as another step.
    return Line(table_column=Column(no_wrap=True, overflow="ellipsis"))
