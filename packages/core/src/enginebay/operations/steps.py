"""The steps of a long operation, recorded and reported with their durations."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import one_line, raise_if_interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_log = logging.getLogger("enginebay.steps")


class Step(msgspec.Struct, kw_only=True):
    """One step of an operation.

    Attributes:
        name: The step's name, such as ``export``, ``convert`` or ``verify``.
        detail: What the step is doing, has chosen or has produced, in a few words.
        seconds: The step's duration; None while it runs.
        failed: True if the step ended with an error.
    """

    name: str
    detail: str = ""
    seconds: float | None = None
    failed: bool = False


class Steps:
    """Records the steps of an operation in order.

    Args:
        watch: A function that is called with each step when it starts, when its detail changes and
            when it ends.
    """

    def __init__(self, watch: Callable[[Step], None] | None = None) -> None:
        self.done: list[Step] = []
        self._watch = watch

    @contextmanager
    def __call__(self, name: str) -> Iterator[Callable[[str], None]]:
        """Record and time the ``with`` block as a step; yield a function to set its detail.

        Raises:
            KeyboardInterrupt: Ctrl-C or SIGTERM came earlier, but a library caught the exception.

        Example:
            >>> steps = Steps()
            >>> with steps("export") as set_detail:
            ...     set_detail("opset 20")
            >>> steps.done[0].detail
            'opset 20'
        """
        # torch's lazy imports catch every exception, also the one of Ctrl-C.
        raise_if_interrupted()
        step = Step(name=name)

        def set_detail(detail: str) -> None:
            step.detail = detail
            _log.debug("%s: %s", name, detail)
            self._report_step(step)

        self._report_step(step)
        start = time.perf_counter()
        try:
            yield set_detail
        except BaseException as err:
            step.failed = True
            _log.debug("%s failed: %s", name, one_line(err))
            raise
        finally:
            step.seconds = time.perf_counter() - start
            _log.debug("%s took %.2f s", name, step.seconds)
            self.done.append(step)
            self._report_step(step)

    def _report_step(self, step: Step) -> None:
        if self._watch is not None:
            self._watch(step)
