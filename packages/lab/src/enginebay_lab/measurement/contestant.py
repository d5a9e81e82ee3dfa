"""One contestant: its child process, what it has measured, and the row that comes of it."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from enginebay.authors import Latency, LoadRequest, Sample, Worker, save_samples
from enginebay.errors import EnginebayError, ModelSourceError
from enginebay_lab.measurement.batches import size, with_batch
from enginebay_lab.measurement.benchmark_rows import BenchmarkRow, Window
from enginebay_lab.measurement.child import Measured, Opened
from enginebay_lab.measurement.layers import timed_layers
from enginebay_lab.measurement.statistics import FEWEST, agreement, notes, quantiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray

#: The name of PyTorch's rows.
PYTORCH = "pytorch"
_CHILD = "enginebay_lab.measurement.child"


class Entrant(NamedTuple):
    """What can be measured, at any batch and number of threads.

    Attributes:
        name: Its name in rows and messages.
        backend: The backend that made it, or ``pytorch``.
        artifact: Its folder; empty for PyTorch.
        function: What its child process calls.
        arguments: The function's arguments, but for the inputs and the number of threads.
        inputs: What it is called with, before another batch is made of it.
        specs: What it takes.
        note: Why its figures should be taken with care; empty where there is no reason.
    """

    name: str
    backend: str
    artifact: str
    function: str
    arguments: tuple[Any, ...]
    inputs: Mapping[str, NumpyArray]
    specs: Sequence[TensorSpec]
    note: str = ""


def artifact_entry(
    name: str, request: LoadRequest, inputs: Mapping[str, NumpyArray], note: str = ""
) -> Entrant:
    """Enter an artifact's engine."""
    where = str(request.directory)
    call = (f"{_CHILD}:serve", (request,))
    return Entrant(name, request.backend, where, *call, inputs, request.inputs, note)


def torch_entry(model: str, beside: Entrant) -> Entrant:
    """Enter a PyTorch model, named as on the command line, with the inputs of an artifact."""
    call = (f"{_CHILD}:serve_torch", (model,))
    return Entrant(PYTORCH, PYTORCH, "", *call, beside.inputs, beside.specs)


class Contestant:
    """An entry in a child process of its own, which sleeps but in its own windows.

    Args:
        entry: What is measured.
        batch: How many items a call has; None for its inputs as they are.
        threads: How many threads call at once.
        timeout: Seconds that loading may take, and each window beside its own length.

    Attributes:
        windows: The windows that were measured.
        spent: Seconds that they took.
        error: What ended it; None as long as nothing did.
    """

    def __init__(self, entry: Entrant, batch: int | None, threads: int, timeout: float) -> None:
        self.entry = entry
        self.batch = size(entry.inputs) if batch is None else batch
        self.threads = threads
        self.windows: list[Window] = []
        self.spent = 0.0
        self.error: EnginebayError | None = None
        self._stacked = batch is not None
        self._timeout = timeout
        self._worker: Worker | None = None
        self._opened: Opened | None = None
        self._peak = 0
        self._calls, self._engine = array("d"), array("d")
        self._elapsed = 0.0

    def open(self, samples: Path) -> None:
        """Load it and call it once; an error is kept, not raised.

        Args:
            samples: A file for its inputs, which the process reads once.

        Raises:
            ModelSourceError: There is no such PyTorch model: nothing can be compared with it.
        """
        entry = self.entry
        try:
            save_samples(samples, [Sample(self._inputs(), {})])
            self._worker = Worker(
                entry.name, entry.function, *entry.arguments, samples, self.threads
            )
            self._worker.receive(self._timeout)
            self._opened = msgspec.msgpack.decode(self._ask(0.0), type=Opened)
            self._worker.pause()
        except EnginebayError as err:
            if entry.name == PYTORCH and isinstance(err, ModelSourceError):
                raise
            self._fail(err)

    def warm_up(self, seconds: float) -> None:
        """Make calls that are not counted."""
        self._turn(seconds)

    def measure(self, number: int, seconds: float) -> Window | None:
        """Measure a window; None where that fails.

        Args:
            number: The round.
            seconds: How long it is, but for the last call.
        """
        found = self._turn(seconds)
        if found is None:
            return None
        self._calls.extend(found.calls)
        self._engine.extend(found.engine)
        self._elapsed += found.elapsed
        self.spent += found.elapsed + sum(found.engine) / self.threads
        window = Window(
            round=number,
            calls=len(found.calls),
            median=Latency.of(found.calls).median,
            engine=Latency.of(found.engine).median,
            calls_per_second=len(found.calls) / found.elapsed,
        )
        self.windows.append(window)
        return window

    @property
    def agrees(self) -> bool:
        """True where the last windows agree."""
        return bool(self.windows) and agreement(self._medians, self.spent).agreed

    def may_go_on(self, seconds: float) -> bool:
        """True as long as nothing ended it and it has time left, or too few windows."""
        return self.error is None and (len(self.windows) < FEWEST or self.spent < seconds)

    def close(self) -> None:
        """End the process; a second call does nothing."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def row(self) -> BenchmarkRow:
        """Sum up what was measured."""
        row = BenchmarkRow(
            name=self.entry.name,
            artifact=self.entry.artifact,
            backend=self.entry.backend,
            batch=self.batch,
            threads=self.threads,
            windows=tuple(self.windows),
            notes=(self.entry.note,) if self.entry.note else (),
            failure=_failure(self.error),
        )
        if self._opened is None:
            return row
        row = msgspec.structs.replace(
            row,
            **msgspec.structs.asdict(self._opened),
            precision=self._opened.receipt.precision,
            peak_memory=self._peak or None,
        )
        return self._with_figures(row) if self.windows else row

    def with_layers(self, row: BenchmarkRow, seconds: float) -> BenchmarkRow:
        """Add the times of an engine's layers, or a note that says why there are none.

        Args:
            row: Its row.
            seconds: How long the runs may take, roughly.
        """
        (first, *_) = self.entry.arguments
        if row.call is None or not isinstance(first, LoadRequest):
            return row
        runs = round(seconds / row.call.median)
        try:
            layers = timed_layers(first, self._inputs(), runs, self._timeout)
        except EnginebayError as err:
            note = f"its layers are not timed: {err}"
            return msgspec.structs.replace(row, notes=(*row.notes, note))
        return msgspec.structs.replace(row, layers=layers)

    def _with_figures(self, row: BenchmarkRow) -> BenchmarkRow:
        ordered = sorted(self._calls)
        call = _typical(ordered, self._medians)
        rate = len(ordered) / self._elapsed
        return msgspec.structs.replace(
            row,
            call=call,
            engine=_typical(self._engine, [window.engine for window in self.windows]),
            calls_per_second=rate,
            items_per_second=rate * self.batch,
            agreement=agreement(self._medians, self.spent),
            notes=(*row.notes, *notes(self._medians, call.mean, call.median)),
            quantiles=quantiles(ordered),
        )

    @property
    def _medians(self) -> list[float]:
        return [window.median for window in self.windows]

    def _inputs(self) -> dict[str, NumpyArray]:
        if not self._stacked:
            return dict(self.entry.inputs)
        return with_batch(self.entry.inputs, self.entry.specs, self.batch)

    def _turn(self, seconds: float) -> Measured | None:
        """Let it run; None where it has ended, or ends now."""
        if self._worker is None:
            return None
        try:
            self._worker.resume()
            found: Measured = msgspec.msgpack.decode(self._ask(seconds), type=Measured)
            self._worker.pause()
        except EnginebayError as err:
            self._fail(err)
            return None
        self._peak = found.peak
        return found

    def _ask(self, seconds: float) -> bytes:
        assert self._worker is not None
        self._worker.send(msgspec.msgpack.encode(seconds))
        return self._worker.receive(self._timeout + seconds)

    def _fail(self, error: EnginebayError) -> None:
        self.error = error
        self.close()


def _typical(calls: Sequence[float], medians: Sequence[float]) -> Latency:
    """Summarise calls, with the median of their windows' medians, which ratios are made of too."""
    windows = Latency.of(medians)
    return msgspec.structs.replace(
        Latency.of(calls), median=windows.median, low=windows.low, high=windows.high
    )


def _failure(error: EnginebayError | None) -> str:
    if error is None:
        return ""
    return f"{error}; {error.hint}" if error.hint else str(error)
