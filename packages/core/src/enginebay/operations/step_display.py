"""Live display of steps: in a notebook, on a terminal, or as lines."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from enginebay.display import html_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import ProgressColumn

    from enginebay.operations.steps import Step


@contextmanager
def show_steps(*, transient: bool = False) -> Iterator[Callable[[Step], None]]:
    """Yield a function that shows each step with its duration in seconds.

    In a notebook, the function updates a table; on a terminal, it updates lines on stderr.
    Otherwise, it prints one line on stderr at the end of each step.

    Args:
        transient: True to remove the lines from a terminal at the end, unless there is an error.
    """
    if _is_notebook():
        yield _watch_in_notebook()
    elif sys.stderr.isatty():
        with _on_terminal(transient=transient) as show_step:
            yield show_step
    else:
        yield _print_finished


def _is_notebook() -> bool:
    # Not imported here: in a notebook it is already imported.
    python = sys.modules.get("IPython")
    return python is not None and hasattr(python.get_ipython(), "kernel")


def _watch_in_notebook() -> Callable[[Step], None]:
    # rich can update its output in a notebook only with ipywidgets, which may not be installed.
    ipython: Any = import_module("IPython.display")
    steps: list[Step] = []
    handle = ipython.display(ipython.HTML(""), display_id=True)

    def show_step(step: Step) -> None:
        if not any(known is step for known in steps):  # equal steps may be different objects
            steps.append(step)
        rows = [(_step_mark(step), step.name, _format_seconds(step), step.detail) for step in steps]
        shown = html_table(("", "step", "seconds", ""), rows, right=("seconds",))
        handle.update(ipython.HTML(shown))

    return show_step


def _step_mark(step: Step) -> str:
    if step.seconds is None:
        return "…"
    return "✗" if step.failed else "✓"


def _format_seconds(step: Step) -> str:
    return "" if step.seconds is None else f"{step.seconds:.1f}"


def _print_finished(step: Step) -> None:
    if step.seconds is not None:
        mark, seconds = _step_mark(step), _format_seconds(step)
        sys.stderr.write(f"{mark} {step.name:<17}{seconds:>7} s  {step.detail}".rstrip() + "\n")


@contextmanager
def _on_terminal(*, transient: bool) -> Iterator[Callable[[Step], None]]:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(_build_column(), console=console, transient=True, refresh_per_second=5) as bar:
        # Transient only once the block has ended without an error: an error keeps the lines.
        bar.live.transient = False
        tasks: list[tuple[Step, Any]] = []

        def show_step(step: Step) -> None:
            if not tasks or tasks[-1][0] is not step:
                tasks.append((step, bar.add_task(step.name, total=1, step=step)))
            bar.update(tasks[-1][1], completed=step.seconds is not None)

        yield show_step
        bar.live.transient = transient


def _build_column() -> ProgressColumn:
    from rich.progress import SpinnerColumn, Task
    from rich.table import Column
    from rich.text import Text

    class StepColumn(SpinnerColumn):
        def render(self, task: Task) -> Text:
            step: Step = task.fields["step"]
            mark = Text("✗", "red") if step.failed else Text("✓", "green")
            if not task.finished:
                mark = cast("Text", super().render(task))
            seconds = task.elapsed or 0.0 if step.seconds is None else step.seconds
            text = f" {step.name:<17}{seconds:>7.1f} s  {step.detail}".rstrip()
            return Text.assemble(mark, text)

    # A detail too long for the terminal is cut: a second line would read as another step.
    return StepColumn(table_column=Column(no_wrap=True, overflow="ellipsis"))
