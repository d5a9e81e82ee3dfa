"""The child process of a benchmark: it loads an engine or a PyTorch model and times its calls."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import msgspec

from enginebay import Receipt
from enginebay.authors.arrays import Sample, load_samples, save_samples, to_numpy
from enginebay.authors.artifacts import LoadRequest  # noqa: TC001 - the child process reads the annotations
from enginebay_lab.resources import peak_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay import Wrapper
    from enginebay.authors.arrays import NumpyArray

    #: The inputs of a call, by name.
    Arrays = Mapping[str, NumpyArray]


class LoadFigures(msgspec.Struct, array_like=True):
    """The time and memory for loading an engine or model, and the time for the first call.

    Attributes:
        receipt: The engine, device and precision, as the engine reports them.
        load: Seconds for loading.
        first: Seconds for the first call.
        bare_memory: The peak memory of this process before loading, in bytes.
    """

    receipt: Receipt
    load: float
    first: float
    bare_memory: int


class WindowCalls(msgspec.Struct, array_like=True):
    """The calls that were timed in one window of a benchmark.

    Attributes:
        calls: The duration of each call in seconds.
        timed: The duration of each of some other calls, in which the engine was timed too.
        engine: The duration of only the engine, without checks and copies, in each of the calls in
            ``timed``.
        elapsed: The duration of the window in seconds.
        peak: The peak memory of this process so far, in bytes.
    """

    calls: list[float]
    timed: list[float]
    engine: list[float]
    elapsed: float
    peak: int


def serve_artifact(request: LoadRequest, samples: Path, threads: int) -> Callable[[bytes], bytes]:
    """Load an artifact's engine in this child process, and return a function that times calls."""
    return _make_handler(request.load, samples, threads)


def serve_torch(model: str, samples: Path, threads: int) -> Callable[[bytes], bytes]:
    """Load a PyTorch model in this child process, and return a function that times calls."""
    from enginebay_lab.measurement.torch_wrapper import load_torch

    return _make_handler(lambda: load_torch(model, _read_inputs(samples)), samples, threads)


def _read_inputs(samples: Path) -> dict[str, NumpyArray]:
    return load_samples(samples)[0].inputs


def _make_handler(
    load: Callable[[], Wrapper], samples: Path, threads: int
) -> Callable[[bytes], bytes]:
    """Load an engine or a model, and return a function that times calls for some seconds.

    The function takes the seconds and returns :class:`WindowCalls`, both as MessagePack. For 0
    seconds, it returns :class:`LoadFigures`; for the path of a file, it writes there the outputs of
    another call.
    """
    inputs = _read_inputs(samples)
    bare = peak_memory()  # after the inputs are read: they are not the engine's memory
    start = time.perf_counter()
    wrapper = load()
    loaded = time.perf_counter() - start
    first = _time_call(wrapper, inputs)
    figures = LoadFigures(wrapper.receipt, loaded, first, bare)
    callers = CallerThreads(wrapper, inputs, threads)

    def handle_message(message: bytes) -> bytes:
        wanted = msgspec.msgpack.decode(message, type=float | str)
        if isinstance(wanted, str):
            outputs = {name: to_numpy(array) for name, array in wrapper(inputs).items()}
            save_samples(Path(wanted), [Sample({}, outputs)])
            return b""
        return msgspec.msgpack.encode(callers.measure_window(wanted) if wanted else figures)

    return handle_message


class CallerThreads:
    """Threads that call one engine at the same time.

    Args:
        wrapper: The loaded engine or model.
        inputs: The inputs of each call.
        threads: The number of threads.
    """

    def __init__(self, wrapper: Wrapper, inputs: Arrays, threads: int) -> None:
        self._wrapper = wrapper
        self._inputs = inputs
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads)
        self._last_call = 0.0

    def measure_window(self, seconds: float) -> WindowCalls:
        """Time whole calls for half of ``seconds``, then other calls and the engine in each."""
        # The first call after a sleep has cold caches and must wake the engine's threads, so it is
        # not counted, unless calls are longer than a window: then this hardly matters.
        if self._last_call < seconds:
            _time_call(self._wrapper, self._inputs)
        start = time.perf_counter()
        # Timing the engine takes a microsecond, and waits for the device, so the calls that count
        # are made without it.
        calls = self._time_in_threads(seconds / 2)
        self._last_call = calls[-1]
        with self._wrapper.time_execution() as timing:
            timed = self._time_in_threads(seconds / 2)
        elapsed = time.perf_counter() - start
        return WindowCalls(calls, timed, timing.seconds, elapsed, peak_memory())

    def _time_in_threads(self, seconds: float) -> list[float]:
        if self._threads == 1:  # without a second thread, no call waits for the interpreter's lock
            return _time_calls(self._wrapper, self._inputs, seconds)
        barrier = Barrier(self._threads)  # all threads begin at the same time

        def run_thread() -> list[float]:
            barrier.wait()
            return _time_calls(self._wrapper, self._inputs, seconds)

        futures = [self._pool.submit(run_thread) for _ in range(self._threads)]
        return [duration for future in futures for duration in future.result()]


def _time_calls(wrapper: Wrapper, inputs: Arrays, seconds: float) -> list[float]:
    """Make calls until the time is up, and return the duration of each call."""
    durations: list[float] = []
    start = time.perf_counter()
    while True:
        durations.append(_time_call(wrapper, inputs))
        elapsed = time.perf_counter() - start
        # One disturbed call must not be the whole window: slow calls are made three times, or until
        # three times the length has passed.
        if elapsed >= seconds and (len(durations) >= 3 or elapsed >= 3 * seconds):
            return durations


def _time_call(wrapper: Wrapper, inputs: Arrays) -> float:
    start = time.perf_counter()
    wrapper(inputs)
    wrapper.synchronize()  # a call on a GPU may return before its work is complete
    return max(time.perf_counter() - start, 1e-9)  # a coarse clock may not have ticked
