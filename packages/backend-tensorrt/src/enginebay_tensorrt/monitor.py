"""Report the progress of a build as short texts, and stop the build on Ctrl-C."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Monitor:
    """Reports each phase and each step of a build; several threads may call it at once.

    Args:
        progress: Called with a short text for each phase and each step.

    Attributes:
        interrupted: The exception that stops the build at its next step; None if nothing stops the
            build. It was raised by ``progress``, by writing the engine, or in the thread that waits
            for the build, such as a ``KeyboardInterrupt``. TensorRT cannot forward exceptions, so
            the waiting thread raises it after the build has stopped.
    """

    interface = "IProgressMonitor"

    def __init__(self, progress: Callable[[str], None]) -> None:
        super().__init__()
        self.interrupted: BaseException | None = None
        self._progress = progress
        self._lock = threading.Lock()
        self._steps: dict[str, int] = {}

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        """Report that a phase begins; ``parent_phase``, if any, is the phase that contains it."""
        with self._lock:
            self._steps[phase_name] = num_steps
        within = f"{parent_phase}: " if parent_phase else ""
        self._report(f"{within}{phase_name}")

    def step_complete(self, phase_name: str, step: int) -> bool:
        """Report a step, counted from 0; return False to stop the build."""
        with self._lock:
            steps = self._steps.get(phase_name, 0)
        self._report(f"{phase_name} {step + 1}/{steps}")
        return self.interrupted is None

    def phase_finish(self, phase_name: str) -> None:
        """Delete the stored number of steps of a phase, even if the phase stopped early."""
        with self._lock:
            self._steps.pop(phase_name, None)

    def _report(self, text: str) -> None:
        try:
            self._progress(text)
        except BaseException as err:  # noqa: BLE001  # raised again by the builder
            self.interrupted = err
