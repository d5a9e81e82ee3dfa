"""Interleaved measurement: in each round, every benchmark subject runs for a short window.

A subject is an artifact or a PyTorch model, and a window is a group of timed calls. The order of
the subjects changes from round to round.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

import msgspec

from enginebay.errors import raise_if_interrupted
from enginebay_lab.measurement.benchmark_subject import BenchmarkSubject
from enginebay_lab.measurement.statistics import compute_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from enginebay.authors.arrays import NumpyArray
    from enginebay.errors import EnginebayError
    from enginebay_lab.journal import Journal
    from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
    from enginebay_lab.measurement.benchmark_subject import SubjectSpec

_T = TypeVar("_T")

#: The length of a window: short compared with disturbances, long compared with waking a process.
WINDOW_SECONDS = 0.1
#: Calls before the first window are not counted: at first, clock rates and caches still change.
WARM_UP_SECONDS = 0.5
#: The total duration of an engine's runs under its profiler.
LAYER_SECONDS = 2.0
#: The largest length of a window, and of the warm-up, as a fraction of the time limit.
MAX_TIME_SHARE = 1 / 30


class InterleavedRun:
    """Measures artifacts and PyTorch models at one batch size and one number of threads.

    Args:
        specs: The artifacts and models to measure; the first is the baseline.
        batch: The batch size; None for the batch size of the inputs.
        threads: The number of threads that call an engine at the same time.
        timeout: Time limit in seconds for loading, and for each window (group of timed calls).
        journal: The journal (file of the results so far) to which windows and rows are written.

    Attributes:
        outputs: Name of an artifact → the outputs of a call after its windows, if they were asked
            for. One that has failed is missing.
    """

    def __init__(
        self,
        specs: Sequence[SubjectSpec],
        batch: int | None,
        threads: int,
        *,
        timeout: float,
        journal: Journal,
    ) -> None:
        self._subjects = [BenchmarkSubject(spec, batch, threads, timeout) for spec in specs]
        self._journal = journal
        self.outputs: dict[str, Mapping[str, NumpyArray]] = {}

    @property
    def errors(self) -> list[EnginebayError]:
        """The errors of the artifacts and models that failed, in the order of ``specs``."""
        return [subject.error for subject in self._subjects if subject.error is not None]

    def measure_rows(
        self,
        seconds: float,
        on_progress: Callable[[str], None],
        *,
        layers: bool = False,
        outputs: bool = False,
    ) -> list[BenchmarkRow]:
        """Measure rounds until each subject's windows agree or its time is up; return the rows.

        A subject is an artifact or a PyTorch model; a window is a group of timed calls. Subjects
        whose windows already agree are measured in further rounds too, so that these rounds compare
        all subjects.

        Args:
            seconds: The time limit in seconds for each subject, including warm-up. At least six
                windows are measured even if they take longer.
            on_progress: Called with a short text about each step.
            layers: Time the engines' layers at the end.
            outputs: Keep the outputs of a call at the end, in :attr:`outputs`.

        Raises:
            OSError: The journal cannot be written.
        """
        with ExitStack() as stack:
            for subject in self._subjects:
                stack.callback(subject.close)  # before any is opened, since opening may raise
            self._open_subjects(on_progress)
            for subject in self._subjects:
                subject.warm_up(min(WARM_UP_SECONDS, seconds * MAX_TIME_SHARE))
            self._measure_rounds(seconds, on_progress)
            if outputs:
                self._read_outputs()
        rows = []
        for subject in self._subjects:
            row = self._build_row(subject)
            if layers:
                on_progress(f"timing the layers of {subject.spec.name}")
                row = subject.add_layers(row, min(seconds, LAYER_SECONDS))
            self._journal.append({"row": row})
            rows.append(row)
        return rows

    def _open_subjects(self, on_progress: Callable[[str], None]) -> None:
        # One after the other, so that no subject slows the loading of another.
        with TemporaryDirectory(prefix="enginebay-benchmark-") as folder:
            for number, subject in enumerate(self._subjects):
                on_progress(f"loading {subject.spec.name}")
                subject.open(Path(folder) / f"{number}.npz")

    def _read_outputs(self) -> None:
        with TemporaryDirectory(prefix="enginebay-benchmark-") as folder:
            for number, subject in enumerate(self._subjects):
                found = subject.read_outputs(Path(folder) / f"{number}.npz")
                if found is not None:
                    self.outputs[subject.spec.name] = found

    def _measure_rounds(self, seconds: float, on_progress: Callable[[str], None]) -> None:
        limit = seconds * (1 - MAX_TIME_SHARE)  # without the warm-up
        length = min(WINDOW_SECONDS, seconds * MAX_TIME_SHARE)
        number = 0
        while any(s.can_continue(limit) and not s.has_agreed for s in self._subjects):
            on_progress(f"round {number + 1}")
            for subject in order_round(self._subjects, number):
                raise_if_interrupted()  # other code may have caught the exception of Ctrl+C
                if not subject.can_continue(limit):
                    continue
                if window := subject.measure_window(number, length):
                    self._journal.append(
                        {
                            "name": subject.spec.name,
                            "batch": subject.batch,
                            "threads": subject.threads,
                            "window": window,
                        }
                    )
            number += 1

    def _build_row(self, subject: BenchmarkSubject) -> BenchmarkRow:
        row, first = subject.build_row(), self._subjects[0]
        if subject is first or not (subject.has_agreed and first.has_agreed):
            return row
        return msgspec.structs.replace(row, ratio=compute_ratio(subject.windows, first.windows))


def order_round(subjects: Sequence[_T], number: int) -> list[_T]:
    """Return artifacts and models in the order in which they run in round ``number``.

    The order changes, so that none has an advantage. Each round begins with the next artifact or
    model; after all have been first, the order is reversed.

    Example:
        >>> [order_round("abc", number) for number in (0, 1, 3)]
        [['a', 'b', 'c'], ['b', 'c', 'a'], ['c', 'b', 'a']]
    """
    first = number % len(subjects)
    order = [*subjects[first:], *subjects[:first]]
    return order[::-1] if number // len(subjects) % 2 else order
