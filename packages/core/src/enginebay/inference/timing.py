"""Timing of a wrapper's engine calls, and of methods that :func:`count_time` decorates."""

from __future__ import annotations

import inspect
import logging
import math
import statistics
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_log = logging.getLogger("enginebay.inference")

F = TypeVar("F", bound="Callable[..., Any]")
_R = TypeVar("_R")
_MARK = "__enginebay_count_time__"

#: The name of the engine's own calls.
ENGINE = "engine"
#: The number of durations that must be longer than a percentile for it to be reported.
MIN_DURATIONS_ABOVE = 2


class Timing:
    """Durations in seconds, by name, of engine calls and of methods that the backend times.

    Args:
        warmup: The number of initial calls under each name that are not counted.
        synchronize: A function that waits for the device. It is called before each reading of the
            clock, so that asynchronous work is counted. If None, the time until the call returns
            is measured.
        log_every: The number of counted calls under a name after which the average is logged
            again; None to log nothing.
    """

    def __init__(
        self,
        *,
        warmup: int = 0,
        synchronize: Callable[[], None] | None = None,
        log_every: int | None = None,
    ) -> None:
        self.warmup = warmup
        self._synchronize = synchronize or (lambda: None)
        self._log_every = log_every
        self._counters: dict[str, Counter] = {}
        self.counter(ENGINE)

    def counter(self, name: str) -> Counter:
        """Return the counter of a name; create the counter if there is none."""
        if name not in self._counters:
            self._counters[name] = Counter(name, self.warmup, self._synchronize, self._log_every)
        return self._counters[name]

    @property
    def seconds(self) -> list[float]:
        """One duration for each counted call of the engine, in order."""
        return self._counters[ENGINE].seconds

    @property
    def count(self) -> int:
        """The number of calls of the engine that were counted."""
        return len(self.seconds)

    @property
    def names(self) -> tuple[str, ...]:
        """``engine``, and the names of the timed methods with at least one counted call."""
        counted = [name for name, counter in self._counters.items() if counter.seconds]
        return tuple(dict.fromkeys((ENGINE, *counted)))

    def statistics(self, name: str = ENGINE) -> Latency:
        """Return statistics of the counted calls under a name.

        Raises:
            ValueError: No call was counted under this name.
        """
        counter = self._counters.get(name)
        if counter is None or not counter.seconds:
            raise ValueError(f"no call of '{name}' was timed (warm-up calls: {self.warmup})")
        return Latency.of(counter.seconds)


class Counter:
    """Durations of the calls under one name; several threads may add durations at once.

    Attributes:
        seconds: One duration for each counted call, in order.
    """

    def __init__(
        self, name: str, warmup: int, synchronize: Callable[[], None], log_every: int | None
    ) -> None:
        self.seconds: list[float] = []
        self._name = name
        self._synchronize = synchronize
        self._log_every = log_every
        self._to_skip = [None] * warmup  # list.pop is atomic, and subtraction is not

    def measure_call(self, function: Callable[..., _R], *args: object, **keywords: object) -> _R:
        """Call a function, and record its duration unless it raises an exception."""
        self._synchronize()  # earlier work of the device must not count for this call
        start = time.perf_counter()
        result = function(*args, **keywords)
        self._synchronize()
        self._add_duration(time.perf_counter() - start)
        return result

    def _add_duration(self, seconds: float) -> None:
        if self._to_skip:
            try:
                self._to_skip.pop()
            except IndexError:  # another thread took the last one
                pass
            else:
                return
        self.seconds.append(seconds)
        if self._log_every and len(self.seconds) % self._log_every == 0:
            mean = statistics.fmean(self.seconds)
            count = len(self.seconds)
            _log.info("%s: %.3f ms on average of %d calls", self._name, mean * 1e3, count)


def count_time(name: str) -> Callable[[F], F]:
    """Decorate a method of a wrapper, so that :meth:`~enginebay.Wrapper.time_execution` times it.

    Outside of ``time_execution`` the method is called directly, without any overhead.

    Args:
        name: The name of the method in the statistics; ``engine`` is reserved for ``execute``.

    Example:
        >>> class Decoder:
        ...     @count_time("decode")
        ...     def decode(self, boxes):
        ...         return boxes
    """

    def mark_method(method: F) -> F:
        setattr(method, _MARK, name)
        return method

    return mark_method


def find_marked_methods(owner: object) -> Iterator[tuple[str, str, Callable[..., object]]]:
    """Yield attribute name, name in the statistics, and method for each method to be timed."""
    kind = type(owner)
    for attribute in dir(kind):
        method = inspect.getattr_static(kind, attribute)
        function = getattr(method, "__func__", method)  # of a static method, or a class method
        name = getattr(function, _MARK, None)
        if name is not None:
            yield attribute, name, method.__get__(owner, kind)


class Latency(msgspec.Struct, frozen=True):
    """Statistics of call durations, in seconds.

    A percentile is None if fewer than two durations would be longer than the percentile. The 90th
    percentile therefore requires 20 calls, and the 99th 200. With fewer calls, the percentile would
    be one of the two longest durations, which describes one unlucky call and not the distribution.

    Attributes:
        runs: The number of calls.
        median: The median duration.
        low: The lower bound of the 95 % confidence interval of the median.
        high: The upper bound of the 95 % confidence interval of the median.
        mean: The arithmetic mean of the durations.
        stdev: The population standard deviation of the durations.
        p90: The 90th percentile of the durations; None for fewer than 20 calls.
        p99: The 99th percentile of the durations; None for fewer than 200 calls.
        min: The shortest duration.
        max: The longest duration.
    """

    runs: int
    median: float
    low: float
    high: float
    mean: float
    stdev: float
    p90: float | None
    p99: float | None
    min: float
    max: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        """Return the statistics of one or more durations.

        Example:
            >>> Latency.of([0.1, 0.2, 0.3]).median
            0.2
        """
        ordered = sorted(seconds)
        mean = math.fsum(ordered) / len(ordered)
        low, high = _median_interval(ordered)
        return cls(
            runs=len(ordered),
            median=statistics.median(ordered),
            low=low,
            high=high,
            mean=mean,
            stdev=math.sqrt(math.fsum((x - mean) ** 2 for x in ordered) / len(ordered)),
            p90=_nearest_rank(ordered, 90),
            p99=_nearest_rank(ordered, 99),
            min=ordered[0],
            max=ordered[-1],
        )


def _median_interval(ordered: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median of values in ascending order.

    Both bounds are order statistics, with the ranks n/2 ± 0.98·√n, so that the interval is valid
    for any distribution. The ranks are the normal approximation of the binomial distribution (David
    and Nagaraja, Order Statistics, 3rd edition, section 7.1). With fewer than six values the
    interval spans all of them, and its confidence is below 95 %.
    """
    n = len(ordered)
    half_width = 0.98 * math.sqrt(n)
    return (
        ordered[max(0, math.floor(n / 2 - half_width))],
        ordered[min(n - 1, math.ceil(n / 2 + half_width))],
    )


def _nearest_rank(ordered: Sequence[float], percent: int) -> float | None:
    """Return a percentile by the nearest-rank method, without interpolation."""
    rank = math.ceil(len(ordered) * percent / 100)
    return ordered[rank - 1] if len(ordered) - rank >= MIN_DURATIONS_ABOVE else None
