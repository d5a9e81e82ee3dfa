"""Timing of calls in the process of a benchmark's subject."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import enginebay as eb
from enginebay_lab.measurement import subject_process
from enginebay_lab.measurement.subject_process import CallerThreads

if TYPE_CHECKING:
    from collections.abc import Iterator

X = np.ones((1, 2), np.float32)


class Sleeps(eb.Wrapper):
    """An engine that takes some time, and may raise."""

    concurrent = True

    def __init__(self, seconds: float = 0.0, fails_after: int = 10**9) -> None:
        spec = eb.TensorSpec("x", "float32", (1, 2))
        super().__init__(inputs=[spec], outputs=[eb.TensorSpec("y", "float32", (1, 2))])
        self.seconds, self.fails_after = seconds, fails_after
        self.calls = 0
        self.threads: set[int] = set()

    @property
    def receipt(self) -> eb.Receipt:
        return eb.Receipt(engine="sleeps", device="cpu")

    def execute(self, feed: dict[str, Any]) -> list[Any]:
        self.calls += 1
        self.threads.add(threading.get_ident())
        if self.calls > self.fails_after:
            raise RuntimeError("out of oil")
        time.sleep(self.seconds)
        return [feed["x"]]


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A clock that ticks every 20 milliseconds."""
    ticks = SimpleNamespace(perf_counter=lambda: time.perf_counter() // 0.02 * 0.02)
    monkeypatch.setattr(subject_process, "time", ticks)
    return


@pytest.mark.usefixtures("coarse")
def test_no_call_takes_no_time_by_a_coarse_clock() -> None:
    window = CallerThreads(Sleeps(), {"x": X}, 1).measure_window(0.1)
    assert len(window.calls) > 3
    assert min(window.calls) > 0  # a median of 0 would be divided by
    assert window.elapsed > 0


def test_a_window_has_calls_of_both_kinds() -> None:
    engine = Sleeps(0.002)
    window = CallerThreads(engine, {"x": X}, 1).measure_window(0.04)
    assert engine.calls == 1 + len(window.calls) + len(window.timed)  # and one to wake it
    assert all(call >= 0.002 for call in window.calls)
    assert 0.02 <= sum(window.calls) <= window.elapsed - sum(window.timed)
    assert min(window.engine) >= 0.0019
    # Both are of the same calls, so the part is never longer than the whole.
    pairs = zip(window.engine, window.timed, strict=True)
    assert all(engine < call for engine, call in pairs)
    assert window.peak > 2**20


def test_slow_calls_are_made_three_times() -> None:
    window = CallerThreads(Sleeps(0.02), {"x": X}, 1).measure_window(0.05)
    assert 2 <= len(window.calls) <= 3  # two if they took three times the length of a window


def test_very_slow_calls_are_made_once() -> None:
    caller = CallerThreads(engine := Sleeps(0.05), {"x": X}, 1)
    window = caller.measure_window(0.002)
    assert (len(window.calls), len(window.timed), len(window.engine)) == (1, 1, 1)
    before = engine.calls
    caller.measure_window(0.002)
    assert engine.calls - before == 2  # no call to wake it: it makes no difference for long ones


def test_threads_call_at_the_same_time() -> None:
    engine = Sleeps(0.005)
    window = CallerThreads(engine, {"x": X}, 3).measure_window(0.06)
    assert len(engine.threads) == 4  # and the thread that wakes it
    assert sum(window.calls + window.timed) > 1.5 * window.elapsed


@pytest.mark.parametrize("threads", [1, 2])
def test_an_engine_that_raises_in_the_middle_ends_the_window(threads: int) -> None:
    caller = CallerThreads(Sleeps(0.001, fails_after=5), {"x": X}, threads)
    with pytest.raises(Exception, match="out of oil"):
        caller.measure_window(0.1)
