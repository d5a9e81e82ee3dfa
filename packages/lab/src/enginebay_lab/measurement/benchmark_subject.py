"""A benchmark subject: an artifact or a PyTorch model whose calls a child process times."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from enginebay.authors import Latency, isolation
from enginebay.authors.arrays import Sample, load_samples, save_samples
from enginebay.authors.artifacts import LoadRequest
from enginebay.errors import EnginebayError, ModelSourceError
from enginebay_lab.measurement.batches import count_items, stack_batch
from enginebay_lab.measurement.benchmark_rows import BenchmarkRow, Window
from enginebay_lab.measurement.layer_timing import time_layers_isolated
from enginebay_lab.measurement.statistics import (
    MIN_WINDOWS,
    compute_quantiles,
    describe_instability,
    engine_share,
    measure_agreement,
    typical_duration,
)
from enginebay_lab.measurement.subject_process import LoadFigures, WindowCalls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray

#: The name of PyTorch in rows and messages.
PYTORCH = "pytorch"
#: The module whose functions run in the child process.
_CHILD_MODULE = "enginebay_lab.measurement.subject_process"


class SubjectSpec(NamedTuple):
    """An artifact or a PyTorch model to measure.

    Attributes:
        name: The name in rows and messages.
        backend: The name of the backend that built the artifact, or ``pytorch``.
        artifact: The artifact's folder; empty for PyTorch.
        function: The function that the child process calls, as ``module:function``.
        arguments: The function's arguments, without the inputs and the number of threads.
        inputs: The inputs of a call by name, before they are repeated for a batch size.
        input_specs: The specs of the inputs.
        precision: The requested precision; empty if there is none.
        note: A reason why the measurements may be unreliable; empty if there is none.
        params: The run-time parameters that differ from the artifact's.
    """

    name: str
    backend: str
    artifact: str
    function: str
    arguments: tuple[Any, ...]
    inputs: Mapping[str, NumpyArray]
    input_specs: Sequence[TensorSpec]
    precision: str = ""
    note: str = ""
    params: Mapping[str, object] = {}


def describe_artifact(
    name: str,
    request: LoadRequest,
    inputs: Mapping[str, NumpyArray],
    note: str = "",
    params: Mapping[str, object] = {},
) -> SubjectSpec:
    """Return what a child process needs to load and measure an artifact's engine."""
    return SubjectSpec(
        name=name,
        backend=request.backend,
        artifact=str(request.directory),
        function=f"{_CHILD_MODULE}:serve_artifact",
        arguments=(request,),
        inputs=inputs,
        input_specs=request.inputs,
        precision=str(request.params.get("precision", "")),
        note=note,
        # As the backend reads them.
        params={name: request.params.get(name) for name in params},
    )


def describe_torch_model(model: str, counterpart: SubjectSpec) -> SubjectSpec:
    """Return what a child process needs to measure a model with the inputs of ``counterpart``."""
    return SubjectSpec(
        name=PYTORCH,
        backend=PYTORCH,
        artifact="",
        function=f"{_CHILD_MODULE}:serve_torch",
        arguments=(model,),
        inputs=counterpart.inputs,
        input_specs=counterpart.input_specs,
    )


class BenchmarkSubject:
    """An artifact or a PyTorch model in a child process that sleeps between its windows.

    A window is a group of timed calls.

    Args:
        spec: The artifact or model.
        batch: The batch size; None for the batch size of the inputs.
        threads: The number of threads that call the engine at the same time.
        timeout: Time limit in seconds for loading, and for each window in addition to its length.

    Attributes:
        windows: The measured windows.
        spent: The total duration of the windows in seconds.
        error: The error that ended the process; None if there was no error.
    """

    def __init__(self, spec: SubjectSpec, batch: int | None, threads: int, timeout: float) -> None:
        self.spec = spec
        self.batch = count_items(spec.inputs) if batch is None else batch
        self.threads = threads
        self.windows: list[Window] = []
        self.spent = 0.0
        self.error: EnginebayError | None = None
        self._is_stacked = batch is not None
        self._timeout = timeout
        self._worker: isolation.Worker | None = None
        self._load_figures: LoadFigures | None = None
        self._peak = 0
        self._calls, self._engine = array("d"), array("d")  # 8 bytes for each of millions of calls
        self._shortest = self._shortest_timed = math.inf

    def open(self, samples: Path) -> None:
        """Load the engine and call it once; an error is stored in :attr:`error`, not raised.

        Args:
            samples: The path of a new file for the inputs, from which the child process reads them.

        Raises:
            ModelSourceError: The PyTorch model does not exist, so nothing can be compared with it.
        """
        spec = self.spec
        try:
            save_samples(samples, [Sample(self._stack_inputs(), {})])
            self._worker = isolation.Worker(
                spec.name, spec.function, *spec.arguments, samples, self.threads
            )
            self._worker.receive(self._timeout)  # the first reply: the engine is loaded
            reply = self._request(0.0, self._timeout)  # 0 seconds request the figures of loading
            self._load_figures = msgspec.msgpack.decode(reply, type=LoadFigures)
            self._worker.pause()  # SIGSTOP: threads of an idle engine may spin and use a core
        except EnginebayError as err:
            if spec.name == PYTORCH and isinstance(err, ModelSourceError):
                raise  # before the other subjects are measured for nothing
            self._record_error(err)

    def warm_up(self, seconds: float) -> None:
        """Make calls for some seconds without recording their durations."""
        self._run_window(seconds)

    def measure_window(self, number: int, seconds: float) -> Window | None:
        """Measure and return a window (group of timed calls); None if the process has failed.

        Args:
            number: The index of the round.
            seconds: The window's length in seconds; the last call may exceed it.
        """
        measured = self._run_window(seconds)
        if measured is None:
            return None
        # The engine's share, not its duration: other calls may be slower than those that count, so
        # that only the engine would seem to take longer than a whole call.
        typical, share = typical_duration(measured.calls, self.threads), self._find_share(measured)
        self._calls.extend(measured.calls)
        self._engine.extend(share * call for call in measured.calls)
        self.spent += measured.elapsed
        window = Window(
            round=number,
            calls=len(measured.calls),
            median=typical,
            engine=share * typical,
            calls_per_second=self.threads / typical,
        )
        self.windows.append(window)
        return window

    def read_outputs(self, file: Path) -> Mapping[str, NumpyArray] | None:
        """Return the outputs of another call; None if the process fails now or failed before.

        Args:
            file: The path of a new file, into which the child process writes the outputs.
        """
        if self._worker is None:
            return None
        try:
            self._worker.resume()
            self._request(str(file), self._timeout)
            self._worker.pause()
        except EnginebayError as err:
            self._record_error(err)
            return None
        (found,) = load_samples(file)
        return found.outputs

    def _find_share(self, measured: WindowCalls) -> float:
        # The shortest calls are hardly disturbed: they differ by what timing the engine takes.
        self._shortest = min(self._shortest, min(measured.calls))
        self._shortest_timed = min(self._shortest_timed, min(measured.timed))
        return engine_share(
            typical_duration(measured.timed, self.threads),
            typical_duration(measured.engine, self.threads),
            max(0.0, self._shortest_timed - self._shortest),
        )

    @property
    def has_agreed(self) -> bool:
        """True if the windows (groups of timed calls) measured so far agree."""
        return bool(self.windows) and measure_agreement(self._medians, self.spent).agreed

    def can_continue(self, seconds: float) -> bool:
        """Return True if another window can be measured: no error occurred, and more are needed.

        At least six windows are needed; further windows until all together last ``seconds``.
        """
        return self.error is None and (len(self.windows) < MIN_WINDOWS or self.spent < seconds)

    def close(self) -> None:
        """End the child process; do nothing if it has ended already."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def build_row(self) -> BenchmarkRow:
        """Return a row with the measurements of all windows, and with the error, if any."""
        row = BenchmarkRow(
            name=self.spec.name,
            artifact=self.spec.artifact,
            params=dict(self.spec.params),
            backend=self.spec.backend,
            requested=self.spec.precision,
            batch=self.batch,
            threads=self.threads,
            windows=tuple(self.windows),
            notes=(self.spec.note,) if self.spec.note else (),
            failure=_describe_failure(self.error),
        )
        if self._load_figures is None:
            return row
        row = msgspec.structs.replace(
            row,
            **msgspec.structs.asdict(self._load_figures),
            precision=self._load_figures.receipt.precision,
            peak_memory=self._peak or None,  # 0 if no window was measured
        )
        return self._add_figures(row) if self.windows else row

    def add_layers(self, row: BenchmarkRow, seconds: float) -> BenchmarkRow:
        """Return a row with the timed layers of the engine, or with a note why there are none.

        Args:
            row: The row that :meth:`build_row` returned.
            seconds: The approximate total duration of the runs under the engine's profiler.
        """
        (request, *_) = self.spec.arguments
        if row.call is None or not isinstance(request, LoadRequest):
            return row
        runs = round(seconds / row.call.median)
        try:
            layers = time_layers_isolated(request, self._stack_inputs(), runs, self._timeout)
        except EnginebayError as err:
            note = f"the layers could not be timed: {err}"
            return msgspec.structs.replace(row, notes=(*row.notes, note))
        return msgspec.structs.replace(row, layers=layers)

    def _add_figures(self, row: BenchmarkRow) -> BenchmarkRow:
        ordered = sorted(self._calls)
        call = _summarize_calls(ordered, self._medians)
        rate = self.threads / call.median
        return msgspec.structs.replace(
            row,
            call=call,
            engine=_summarize_calls(self._engine, [window.engine for window in self.windows]),
            calls_per_second=rate,
            items_per_second=rate * self.batch,
            agreement=measure_agreement(self._medians, self.spent),
            notes=(*row.notes, *describe_instability(self._medians, call.mean, call.median)),
            quantiles=compute_quantiles(ordered),
        )

    @property
    def _medians(self) -> list[float]:
        return [window.median for window in self.windows]

    def _stack_inputs(self) -> dict[str, NumpyArray]:
        if not self._is_stacked:
            return dict(self.spec.inputs)
        return stack_batch(self.spec.inputs, self.spec.input_specs, self.batch)

    def _run_window(self, seconds: float) -> WindowCalls | None:
        """Time calls in the child process; None if the process fails now or failed before."""
        if self._worker is None:
            return None
        try:
            self._worker.resume()
            reply = self._request(seconds, self._timeout + seconds)
            measured: WindowCalls = msgspec.msgpack.decode(reply, type=WindowCalls)
            self._worker.pause()
        except EnginebayError as err:
            self._record_error(err)
            return None
        self._peak = measured.peak
        return measured

    def _request(self, wanted: float | str, timeout: float) -> bytes:
        assert self._worker is not None
        self._worker.send(msgspec.msgpack.encode(wanted))
        return self._worker.receive(timeout)

    def _record_error(self, error: EnginebayError) -> None:
        self.error = error
        self.close()


def _summarize_calls(calls: Sequence[float], medians: Sequence[float]) -> Latency:
    # Single calls of a window are not independent, so the confidence interval is that of the
    # windows' medians.
    windows = Latency.of(medians)
    return msgspec.structs.replace(
        Latency.of(calls), median=windows.median, low=windows.low, high=windows.high
    )


def _describe_failure(error: EnginebayError | None) -> str:
    if error is None:
        return ""
    return f"{error}; {error.hint}" if error.hint else str(error)
