"""The rows of a benchmark: one for each artifact, batch size and number of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay import Receipt
from enginebay.authors import Latency
from enginebay.commands import human_number, human_seconds
from enginebay.hooks import TimedLayer

if TYPE_CHECKING:
    from collections.abc import Callable

#: A mean that exceeds the median by a larger fraction is noted, and the figures are ranges.
MAX_MEAN_EXCESS = 0.25
#: The figures are ranges if the confidence interval is a larger fraction of the median.
MAX_SPREAD = 0.1
#: The ``kind`` of each line in the file that a benchmark writes while it runs.
LINE_KIND = "benchmark line"


class Window(msgspec.Struct, frozen=True):
    """A group of timed calls of one artifact or PyTorch model, while the others slept.

    Attributes:
        round: The index of the round; in each round, every artifact or model has one window.
        calls: The number of timed calls.
        median: The median duration of a call in seconds; with several threads, the mean.
        engine: The part of ``median`` that the engine takes, in seconds. The engine's share of a
            call is measured in separate calls.
        calls_per_second: The calls per second of all threads together, from ``median``.
    """

    round: int
    calls: int
    median: float
    engine: float
    calls_per_second: float


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How well the windows (groups of timed calls) of an artifact or a PyTorch model agree.

    Attributes:
        agreed: True if there are at least six windows, and ``apart`` is at most ``wanted``.
        apart: The length of the 95 % confidence interval of the median of the windows' latencies,
            as a fraction of this median.
        wanted: The largest value of ``apart`` at which the windows agree.
        windows: The number of windows.
        seconds: The total duration of the windows in seconds.
    """

    agreed: bool
    apart: float
    wanted: float
    windows: int
    seconds: float

    @property
    def percent(self) -> str:
        """The relative length of the confidence interval, ``apart``, as text: ``1.4 %``."""
        return _format_percent(self.apart)

    def describe(self) -> str:
        """Return a short text that says how well the windows agree.

        Example:
            >>> Agreement(agreed=True, apart=0.014, wanted=0.02, windows=9, seconds=1.2).describe()
            'agreed within 1.4 % after 1.2 s'
            >>> Agreement(agreed=False, apart=0.05, wanted=0.02, windows=99, seconds=30).describe()
            'not agreed within 2 % after 30 s: 5 % apart'
        """
        after = (
            f"after {self.seconds:.2g} s" if self.seconds < 10 else f"after {self.seconds:.0f} s"
        )
        if self.agreed:
            return f"agreed within {self.percent} {after}"
        return f"not agreed within {_format_percent(self.wanted)} {after}: {self.percent} apart"


def _format_percent(share: float) -> str:
    return f"{share * 100:.2g} %" if share < 0.1 else f"{share * 100:,.0f} %"


class Ratio(msgspec.Struct, frozen=True):
    """The speed of an artifact or a PyTorch model relative to the baseline's speed.

    Attributes:
        value: The ratio of the speeds: 2 if a call takes half as long as with the baseline.
        low: The lower end of the 95 % confidence interval of the ratio.
        high: The upper end of this interval.
    """

    value: float
    low: float
    high: float

    def describe(self) -> str:
        """Return the ratio and its interval as text.

        Example:
            >>> Ratio(1.314, 1.25, 1.4).describe()
            '1.31× (1.25–1.40)'
        """
        value, low, high = (
            f"{number:.2f}" if 0.1 <= number < 10 else human_number(number)
            for number in (self.value, self.low, self.high)
        )
        return f"{value}× ({low}–{high})"


class Layer(TimedLayer, frozen=True, kw_only=True):
    """A timed layer of an engine: an :class:`enginebay.hooks.TimedLayer` with two more fields.

    Attributes:
        share: The layer's fraction of the total time of all layers.
        modules: The paths of the modules from which the layer's nodes were exported, as in
            ``named_modules()``: ``features.3.0``; an empty path is the model itself.
    """

    share: float
    modules: tuple[str, ...] = ()


class BenchmarkRow(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of an artifact, or of PyTorch, at one batch size and number of threads.

    A row with a ``failure`` still has the values that were measured before the failure. A window is
    a group of timed calls.

    Attributes:
        name: The artifact's folder as it was passed, or ``pytorch``.
        artifact: The absolute path of the artifact's folder; empty for PyTorch.
        params: The run-time parameters that were passed to the benchmark, by name.
        backend: The name of the backend that built the artifact, or ``pytorch``.
        requested: The precision in the artifact's parameters; empty for PyTorch, and for a backend
            without such a parameter.
        precision: The effective precision that the engine reports; empty if it was not loaded.
        batch: The number of items in a call: the length of the first input's first axis.
        threads: The number of threads that call the engine at the same time.
        call: The duration of whole calls in seconds: checks, copies and the engine. The median and
            its interval are computed from the windows' medians (with several threads, from their
            means), all other values from all calls.
        engine: The part of ``call`` that the engine takes, in seconds. Its share of a call is
            measured in separate calls of the same windows.
        load: Seconds for imports and for loading the engine from its files.
        first: Seconds for the first call, which may compile or allocate.
        calls_per_second: The calls per second of all threads together: ``threads`` divided by the
            median of ``call``.
        items_per_second: ``calls_per_second`` times ``batch``.
        peak_memory: The peak resident memory of the child process in bytes.
        bare_memory: The peak resident memory of the child process before loading, in bytes.
        agreement: How well the windows agree.
        ratio: The speed relative to the baseline, compared round by round; None for the baseline
            itself, and if the windows of the artifact or of the baseline do not agree.
        receipt: The engine, device and precision that were used.
        notes: Reasons why the measurements may be unreliable.
        windows: The windows, in order.
        quantiles: The quantiles of the duration of a call at 0, 1, 2 … 100 %, in seconds.
        layers: The engine's timed layers in the order in which they run; empty if they were not
            requested, or the engine cannot time them.
        failure: Why measurements are missing: loading failed, the process crashed, or a time limit
            was exceeded; empty if nothing is missing.
    """

    name: str
    artifact: str = ""
    params: dict[str, Any] = {}
    backend: str
    requested: str = ""
    precision: str = ""
    batch: int
    threads: int
    call: Latency | None = None
    engine: Latency | None = None
    load: float | None = None
    first: float | None = None
    calls_per_second: float | None = None
    items_per_second: float | None = None
    peak_memory: int | None = None
    bare_memory: int | None = None
    agreement: Agreement | None = None
    ratio: Ratio | None = None
    receipt: Receipt | None = None
    notes: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()
    quantiles: tuple[float, ...] = ()
    layers: tuple[Layer, ...] = ()
    failure: str = ""

    @property
    def is_steady(self) -> bool:
        """True if the median stands for all calls; False if only a range describes them."""
        if self.call is None:
            return False
        is_wide = self.agreement is not None and self.agreement.apart > MAX_SPREAD
        return not is_wide and self.call.mean <= (1 + MAX_MEAN_EXCESS) * self.call.median

    @property
    def param_notes(self) -> list[str]:
        """The run-time parameters that were passed, as a note: ``loaded with threads=2``."""
        shown = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return [f"loaded with {shown}"] if shown else []

    def describe_call(self) -> str:
        """Return the duration of a call as text: ``1.24 ms``; ``-`` if it was not measured.

        If the calls took very different times, as on a busy machine, the text is a range, from the
        lower end of the median's interval to the mean, or to the interval's upper end if this is
        larger. The engine's part and the rates are then ranges between the same ends.
        """
        return self._describe_duration(self.call)

    def describe_engine(self) -> str:
        """Return the duration of the engine in a call as text, as :meth:`describe_call` does."""
        return self._describe_duration(self.engine)

    def describe_calls_per_second(self) -> str:
        """Return the number of calls per second as text, as :meth:`describe_call` does."""
        return self._describe_rate(self.threads)

    def describe_items_per_second(self) -> str:
        """Return the number of items per second as text, as :meth:`describe_call` does."""
        return self._describe_rate(self.threads * self.batch)

    def _describe_duration(self, latency: Latency | None) -> str:
        if latency is None:
            return "-"
        return _format_range(self._find_ends(latency), human_seconds)

    def _describe_rate(self, per_call: int) -> str:
        if self.call is None:
            return "-"
        shortest, longest = self._find_ends(self.call)
        return _format_range((per_call / longest, per_call / shortest), human_number)

    def _find_ends(self, latency: Latency) -> tuple[float, float]:
        if self.is_steady:
            return latency.median, latency.median
        return latency.low, max(latency.high, latency.mean)


def _format_range(ends: tuple[float, float], text: Callable[[float], str]) -> str:
    return " – ".join(dict.fromkeys(map(text, ends)))
