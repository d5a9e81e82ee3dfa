"""What a benchmark finds: a row for each artifact, batch and number of threads."""

from __future__ import annotations

import msgspec

from enginebay import Receipt
from enginebay.authors import Latency
from enginebay.hooks import TimedLayer

#: What a line is called in a file that is written while a benchmark runs.
LINE_KIND = "benchmark line"


class Window(msgspec.Struct, frozen=True):
    """A short time in which one contestant ran, and the others slept.

    Attributes:
        round: In which round; the windows of one round lie beside one another in time.
        calls: How many calls were made.
        median: Seconds of a call: the median.
        engine: Seconds of the engine alone, likewise, in as many calls of their own.
        calls_per_second: The calls of all threads together.
    """

    round: int
    calls: int
    median: float
    engine: float
    calls_per_second: float


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How well the windows agree, and so how sure their median is.

    Attributes:
        agreed: True where they lie as close as wanted.
        apart: How far they lie apart: the length of the 95 % confidence interval of their median,
            as a share of it.
        wanted: The share that was wanted.
        windows: How many windows there were.
        seconds: How long they took together.
    """

    agreed: bool
    apart: float
    wanted: float
    windows: int
    seconds: float

    @property
    def percent(self) -> str:
        """How far they lie apart, as text: ``1.4 %``."""
        return _percent(self.apart)

    def describe(self) -> str:
        """Say it in a few words.

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
        return f"not agreed within {_percent(self.wanted)} {after}: {self.percent} apart"


def _percent(share: float) -> str:
    return f"{share * 100:.2g} %" if share < 0.1 else f"{share * 100:,.0f} %"


class Ratio(msgspec.Struct, frozen=True):
    """A speed beside the baseline's.

    Attributes:
        value: How many times as fast: 2 where a call takes half as long.
        low: The lower end of its 95 % confidence interval.
        high: The upper end.
    """

    value: float
    low: float
    high: float


class Layer(TimedLayer, frozen=True, kw_only=True):
    """A layer of an engine: an :class:`enginebay.hooks.TimedLayer` with its part of the whole.

    Attributes:
        share: Its part of all layers' time together.
        modules: The modules of the source that its nodes come from, as ``named_modules()`` calls
            them: ``features.3.0``; empty for the model itself.
    """

    share: float
    modules: tuple[str, ...] = ()


class BenchmarkRow(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of an artifact, or of PyTorch, at one batch and one number of threads.

    Where ``failure`` says why there are none, what had been measured until then is kept.

    Attributes:
        name: The folder as it was named, or ``pytorch``.
        artifact: The folder, absolute; empty for PyTorch.
        backend: The backend that made it, or ``pytorch``.
        precision: The effective one, by the engine's own account; empty where it did not load.
        batch: How many items a call has: the length of the first axis of the first input.
        threads: How many threads call at once; the engine's own threads are in its parameters.
        call: The calls as a caller sees them: checks, copies and the engine. The median is that of
            the windows' medians, and so is its interval; the percentiles are those of all calls.
        engine: The engine alone, in calls of their own, likewise.
        load: Seconds from the files to something that can be called, imports included.
        first: Seconds of the first call, which may compile or allocate.
        calls_per_second: The calls of all threads together.
        items_per_second: The same, times ``batch``.
        peak_memory: The most memory that its process ever had in RAM, in bytes.
        bare_memory: What the process had before it loaded anything, in bytes.
        agreement: How well the windows agree.
        ratio: Its speed beside the baseline's, paired by rounds; None for the baseline itself, and
            where the windows of one of the two do not agree.
        receipt: What ran, and where.
        notes: Why the figures should be taken with care; empty where nothing was seen.
        windows: The windows, in order.
        quantiles: The duration of a call that 0, 1, 2 … 100 % of them did not exceed, in seconds.
        layers: The engine's layers in the order in which they run, where they were requested and
            the engine times them.
        failure: Why it has no figures: it could not be loaded, died, or ran out of time.
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
