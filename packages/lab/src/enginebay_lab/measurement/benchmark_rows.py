"""The rows of a benchmark: one for each artifact, batch and number of threads."""

from __future__ import annotations

import msgspec

from enginebay import Receipt
from enginebay.authors import Latency
from enginebay.hooks import TimedLayer

#: The kind of the lines in the file that is written while a benchmark runs.
LINE_KIND = "benchmark line"


class Window(msgspec.Struct, frozen=True):
    """A short time in which one benchmark subject ran and the others slept.

    Attributes:
        round: The number of the round; the windows of one round are adjacent in time.
        calls: The number of calls.
        median: The median duration of a call in seconds.
        engine: The median duration of the engine alone in seconds, from as many separate calls.
        calls_per_second: The rate of all threads together.
    """

    round: int
    calls: int
    median: float
    engine: float
    calls_per_second: float


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How well the windows agree, and so how certain their median is.

    Attributes:
        agreed: True if there are enough windows, and ``apart`` is at most ``wanted``.
        apart: The length of the 95 % confidence interval of the windows' median, as a fraction of
            the median.
        wanted: The largest length at which the windows agree.
        windows: The number of windows.
        seconds: Their duration in total.
    """

    agreed: bool
    apart: float
    wanted: float
    windows: int
    seconds: float

    @property
    def percent(self) -> str:
        """The length of the interval as text: ``1.4 %``."""
        return _format_percent(self.apart)

    def describe(self) -> str:
        """Describe the agreement in a few words.

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
    """A speed relative to the baseline's.

    Attributes:
        value: How many times as fast: 2 if a call takes half as long.
        low: The lower end of its 95 % confidence interval.
        high: The upper end.
    """

    value: float
    low: float
    high: float


class Layer(TimedLayer, frozen=True, kw_only=True):
    """A timed layer of an engine: an :class:`enginebay.hooks.TimedLayer` with its share.

    Attributes:
        share: The layer's fraction of all layers' time.
        modules: The model's modules that its nodes come from, by their names in
            ``named_modules()``: ``features.3.0``; an empty name is the model itself.
    """

    share: float
    modules: tuple[str, ...] = ()


class BenchmarkRow(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of an artifact, or of PyTorch, at one batch and one number of threads.

    A row with a ``failure`` still has the figures that were measured before the failure.

    Attributes:
        name: The folder as it was passed, or ``pytorch``.
        artifact: The absolute path of the folder; empty for PyTorch.
        backend: The backend that built the artifact, or ``pytorch``.
        precision: The effective precision that the engine reports; empty if it was not loaded.
        batch: The number of items in a call: the length of the first input's first axis.
        threads: The number of threads that call at once, not the engine's own threads.
        call: The duration of whole calls: checks, copies and the engine, in seconds. The median
            and its interval are those of the windows' medians; the percentiles, of all calls.
        engine: The duration of the engine alone, from separate calls, in the same way.
        load: Seconds from the files to a callable wrapper, imports included.
        first: Seconds of the first call, which may compile or allocate.
        calls_per_second: The rate of all threads together.
        items_per_second: ``calls_per_second`` times ``batch``.
        peak_memory: The peak resident memory of its process in bytes.
        bare_memory: The peak resident memory before anything was loaded, in bytes.
        agreement: How well the windows agree.
        ratio: The speed relative to the baseline, paired by rounds; None for the baseline itself,
            and if the windows of either do not agree.
        receipt: The engine, device and precision that ran.
        notes: Reasons why the figures may be unreliable.
        windows: The windows, in order.
        quantiles: The quantiles of a call's duration at 0, 1, 2 … 100 %, in seconds.
        layers: The engine's timed layers in the order in which they run; empty if they were not
            requested, or the engine cannot time them.
        failure: Why figures are missing: loading failed, the process died, or the time was up.
    """

    name: str
    artifact: str = ""
    backend: str
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
