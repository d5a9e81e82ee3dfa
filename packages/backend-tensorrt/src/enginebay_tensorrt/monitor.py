"""TensorRT's progress in the words of a step's detail; Ctrl-C ends the build."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from enginebay_tensorrt.bindings import trt

if TYPE_CHECKING:
    from collections.abc import Callable


class Monitor(trt.IProgressMonitor):  # type: ignore[misc]  # tensorrt has no types
    """Tells the innermost phase and how far it is; called from several threads at once.

    Args:
        tell: Called with a short text.

    Attributes:
        interrupted: What ``tell`` raised, or what ended the wait for the build, a
            ``KeyboardInterrupt`` above all. An exception cannot pass through TensorRT, so the build
            is called off at its next step and the caller raises it.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        trt.IProgressMonitor.__init__(self)
        self.interrupted: BaseException | None = None
        self._tell = tell
        self._lock = threading.Lock()
        self._steps: dict[str, int] = {}

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        """A phase begins; it is inside ``parent_phase`` if that is given."""
        with self._lock:
            self._steps[phase_name] = num_steps
        within = f"{parent_phase}: " if parent_phase else ""
        self._say(f"{within}{phase_name}")

    def step_complete(self, phase_name: str, step: int) -> bool:
        """One step of a phase is done, counted from 0; the answer is whether to go on."""
        with self._lock:
            steps = self._steps.get(phase_name, 0)
        self._say(f"{phase_name} {step + 1}/{steps}")
        return self.interrupted is None

    def phase_finish(self, phase_name: str) -> None:
        """A phase ends, finished or not."""
        with self._lock:
            self._steps.pop(phase_name, None)

    def _say(self, text: str) -> None:
        try:
            self._tell(text)
        except BaseException as err:  # noqa: BLE001  # raised again by whoever builds
            self.interrupted = err
