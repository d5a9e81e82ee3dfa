"""The part of a contestant that runs in its child process: loading, and the calls of a window."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path  # noqa: TC003  # the child reads serve's annotations
from threading import Barrier
from typing import TYPE_CHECKING

import msgspec

from enginebay import Receipt
from enginebay.authors import (
    LoadRequest,  # the child reads serve's annotations
    load_samples,
)
from enginebay_lab.resources import peak_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay import Wrapper
    from enginebay.authors import NumpyArray

    Arrays = Mapping[str, NumpyArray]


class Opened(msgspec.Struct, array_like=True):
    """What is known once a contestant is loaded and was called once.

    Attributes:
        receipt: What the engine says that it runs.
        load: Seconds until it could be called.
        first: Seconds of the first call.
        bare_memory: Bytes of memory before it was loaded.
    """

    receipt: Receipt
    load: float
    first: float
    bare_memory: int


class Measured(msgspec.Struct, array_like=True):
    """The calls of one window.

    Attributes:
        calls: Seconds of each call.
        engine: Seconds of the engine in each of as many other calls, roughly.
        elapsed: Seconds from the start of the first call of ``calls`` to the end of the last.
        peak: Bytes of memory at most, until now.
    """

    calls: list[float]
    engine: list[float]
    elapsed: float
    peak: int


def serve(request: LoadRequest, samples: Path, threads: int) -> Callable[[bytes], bytes]:
    """Load an artifact's engine in this process; called in a child process."""
    return _served(request.load, samples, threads)


def serve_torch(model: str, samples: Path, threads: int) -> Callable[[bytes], bytes]:
    """Load a PyTorch model in this process; called in a child process."""
    from enginebay_lab.measurement.torch_model import load_torch

    return _served(lambda: load_torch(model, _inputs(samples)), samples, threads)


def _inputs(samples: Path) -> dict[str, NumpyArray]:
    return load_samples(samples)[0].inputs


def _served(load: Callable[[], Wrapper], samples: Path, threads: int) -> Callable[[bytes], bytes]:
    """Load; the function that is returned measures for so many seconds as it gets."""
    inputs = _inputs(samples)
    bare = peak_memory()
    start = time.perf_counter()
    wrapper = load()
    loaded = time.perf_counter() - start
    first = _call(wrapper, inputs)
    opened = Opened(wrapper.receipt, loaded, first, bare)
    callers = Callers(wrapper, inputs, threads)

    def handle(message: bytes) -> bytes:
        seconds = msgspec.msgpack.decode(message, type=float)
        return msgspec.msgpack.encode(callers.measure(seconds) if seconds else opened)

    return handle


class Callers:
    """Threads that call one wrapper at once.

    Args:
        wrapper: The wrapper.
        inputs: What each call gets.
        threads: How many threads.
    """

    def __init__(self, wrapper: Wrapper, inputs: Arrays, threads: int) -> None:
        self._wrapper = wrapper
        self._inputs = inputs
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads)
        self._latest = 0.0

    def measure(self, seconds: float) -> Measured:
        """Make calls for so long: half of the time whole ones, then with the engine's clock.

        The first call is not counted: the process has slept, its data has left the caches, and
        the engine's threads wake up. Beside a call that is longer than the window that is nothing.
        """
        if self._latest < seconds:
            _call(self._wrapper, self._inputs)
        start = time.perf_counter()
        calls = self._calls(seconds / 2)
        elapsed = time.perf_counter() - start
        self._latest = calls[-1]
        with self._wrapper.time_execution() as timing:
            self._calls(seconds / 2)
        return Measured(calls, timing.seconds, elapsed, peak_memory())

    def _calls(self, seconds: float) -> list[float]:
        if self._threads == 1:  # no other thread: nothing waits for the interpreter's lock
            return _calls(self._wrapper, self._inputs, seconds)
        barrier = Barrier(self._threads)

        def run() -> list[float]:
            barrier.wait()
            return _calls(self._wrapper, self._inputs, seconds)

        running = [self._pool.submit(run) for _ in range(self._threads)]
        return [duration for each in running for duration in each.result()]


def _calls(wrapper: Wrapper, inputs: Arrays, seconds: float) -> list[float]:
    """The duration of each call, until the time is up; at least of one.

    One that is disturbed for long must not stand for a window alone: up to three are made in
    three times the time.
    """
    durations: list[float] = []
    start = time.perf_counter()
    while True:
        durations.append(_call(wrapper, inputs))
        elapsed = time.perf_counter() - start
        if elapsed >= seconds and (len(durations) >= 3 or elapsed >= 3 * seconds):
            return durations


def _call(wrapper: Wrapper, inputs: Arrays) -> float:
    start = time.perf_counter()
    wrapper(inputs)
    wrapper.synchronize()
    return time.perf_counter() - start
