"""Durations of the engine's calls alone, and of the parts that a wrapper marks."""

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
_MARK = "__enginebay_count_time__"

#: The name of the engine's own calls.
ENGINE = "engine"
#: Durations that lie above a percentile, at least.
ABOVE = 2


class Timing:
    """The calls that a wrapper's engine made, and those of its marked parts, in seconds, by name.

    Args:
        warmup: The number of first calls of each name that are not counted.
        synchronize: Waits for the device. Called before each reading of the clock, so that
            asynchronous work is counted; None where it is not to be counted.
        log_every: Log the average of each name after so many counted calls; None for never.
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
        """Return what counts the calls under a name, the same one each time."""
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
        """``engine``, and the names of the parts that were called and counted."""
        counted = [name for name, counter in self._counters.items() if counter.seconds]
        return tuple(dict.fromkeys((ENGINE, *counted)))

    def statistics(self, name: str = ENGINE) -> Latency:
        """Summarise the counted calls of a name.

        Raises:
            ValueError: No call was counted yet.
        """
        counter = self._counters.get(name)
        if counter is None or not counter.seconds:
            raise ValueError(f"no {name} call was counted (warm-up: {self.warmup})")
        return Latency.of(counter.seconds)


class Counter:
    """The calls under one name, from any number of threads.

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

    def measure(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call a function and count it; a call that raises is not counted."""
        self._synchronize()
        start = time.perf_counter()
        result = function(*args, **keywords)
        self._synchronize()
        self._add(time.perf_counter() - start)
        return result

    def _add(self, seconds: float) -> None:
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
    """Mark a method of a wrapper: :meth:`~enginebay.Wrapper.time_execution` counts it by name.

    The mark costs nothing elsewhere: the method is called as it is.

    Args:
        name: The name of its statistics; ``engine`` is what ``execute`` has.

    Example:
        >>> class Decoder:
        ...     @count_time("decode")
        ...     def decode(self, boxes):
        ...         return boxes
    """

    def mark(method: F) -> F:
        setattr(method, _MARK, name)
        return method

    return mark


def marked_methods(owner: object) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Yield each method of an object that is marked: its own name, that of its mark, itself."""
    kind = type(owner)
    for attribute in dir(kind):
        method = inspect.getattr_static(kind, attribute)
        function = getattr(method, "__func__", method)  # of a static method, or a class method
        name = getattr(function, _MARK, None)
        if name is not None:
            yield attribute, name, method.__get__(owner, kind)


class Latency(msgspec.Struct, frozen=True):
    """A summary of durations, in seconds.

    A percentile is None where fewer than two durations would lie above it: that takes 20 of them
    for the 90th and 200 for the 99th. With fewer it is the longest one or its neighbour, which
    says how unlucky one call was, not how calls are.

    Attributes:
        runs: The number of calls.
        median: Half of them took less.
        low: The lower end of the 95 % confidence interval of the median.
        high: Its upper end.
        mean: The average.
        stdev: The standard deviation.
        p90: Nine in ten took less; None of fewer than 20.
        p99: Ninety-nine in a hundred took less; None of fewer than 200.
        min: The shortest.
        max: The longest.
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
        """Summarise one duration or more.

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
            stdev=math.sqrt(math.fsum((each - mean) ** 2 for each in ordered) / len(ordered)),
            p90=_percentile(ordered, 90),
            p99=_percentile(ordered, 99),
            min=ordered[0],
            max=ordered[-1],
        )


def _median_interval(ordered: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median of values in ascending order.

    It is taken between two of the values themselves, whatever their distribution: their ranks are
    n/2 ± 0.98·√n, the normal approximation of the binomial (David and Nagaraja, Order Statistics,
    3rd edition, section 7.1). Of fewer than six values it is all of them, and holds less often.
    """
    n = len(ordered)
    reach = 0.98 * math.sqrt(n)
    return (
        ordered[max(0, math.floor(n / 2 - reach))],
        ordered[min(n - 1, math.ceil(n / 2 + reach))],
    )


def _percentile(ordered: Sequence[float], percent: int) -> float | None:
    """Return the nearest rank: a duration that was measured, not one in between."""
    rank = math.ceil(len(ordered) * percent / 100)
    return ordered[rank - 1] if len(ordered) - rank >= ABOVE else None
