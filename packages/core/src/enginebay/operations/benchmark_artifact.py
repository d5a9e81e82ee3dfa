"""``benchmark``: measure an artifact here, with the spread, and a note where figures mislead."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

from enginebay.artifact import open_artifact
from enginebay.errors import UsageError
from enginebay.inference import Latency, latency
from enginebay.operations.load_artifact import load
from enginebay.tensors import inputs_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from enginebay.artifact import Artifact
    from enginebay.inference import Receipt, Wrapper
    from enginebay.tensors import Array

#: Calls that are made however long they take: an interval of the median needs six.
FEWEST = 6
#: The share of the time that goes to calls which are not counted.
WARMUP = 0.1
#: How far the halves of a run may lie apart before it is said.
DRIFT = 0.05
#: How far the mean may lie above the median before it is said.
UNEVEN = 0.25

_CARE = ": measure longer, or with nothing else running"


class Benchmark(NamedTuple):
    """The measured figures.

    Attributes:
        load: Seconds from the folder to a wrapper that can be called.
        first: Seconds of the first call, which may compile or allocate.
        call: The calls as a caller sees them: checks, copies and the engine.
        engine: The engine alone, in as many calls of its own.
        receipt: What ran, and where.
        notes: Why the figures should be taken with care; empty where nothing was seen.
    """

    load: float
    first: float
    call: Latency
    engine: Latency
    receipt: Receipt
    notes: tuple[str, ...]

    @property
    def throughput(self) -> float:
        """Calls a second, one after the other."""
        return 1 / self.call.mean


def benchmark(
    artifact: str | Path | Artifact,
    inputs: Mapping[str, Array] | None = None,
    *,
    seconds: float = 3.0,
    device: str | None = None,
    strict: bool = False,
) -> Benchmark:
    """Measure an artifact on this machine, one call at a time.

    Calls with and without the engine's own clock take turns, so that whatever slows the machine
    slows both.

    Args:
        artifact: The folder, or what :func:`enginebay.deploy` returned.
        inputs: One array or tensor by name; by default the first inputs that the artifact was
            verified with, else made-up ones.
        seconds: How long to measure, after a warm-up of a tenth of it. Six calls of each kind
            are made however long they take.
        device: Where to run instead of the device that the artifact was made for.
        strict: Raise where the engine falls back from what was requested.

    Raises:
        UsageError: ``seconds`` is not a positive number.
        InputError: The inputs do not fit the model.
        ArtifactError: The artifact is damaged.
        BackendUnavailableError: Its backend cannot be used here.
        FallbackError: ``strict``, and the engine fell back.
    """
    if not 0 < seconds < float("inf"):
        raise UsageError(f"seconds is {seconds:g}, wanted a positive number")
    opened = open_artifact(artifact)
    start = time.perf_counter()
    with load(opened, device=device, strict=strict) as wrapper:
        loaded = time.perf_counter() - start
        samples = [] if inputs else opened.samples()
        given = samples[0].inputs if samples else inputs or inputs_for(wrapper.inputs, {})
        (first,) = _calls(wrapper, given, 0.0, fewest=1)
        _calls(wrapper, given, seconds * WARMUP)
        calls, engine = _in_turns(wrapper, given, seconds)
        return Benchmark(
            *(loaded, first, latency(calls), latency(engine), wrapper.receipt),
            tuple(_notes(calls)),
        )


def _calls(
    wrapper: Wrapper, inputs: Mapping[str, Array], seconds: float, *, fewest: int = FEWEST
) -> list[float]:
    """The duration of each call, until the time is up."""
    durations: list[float] = []
    end = time.perf_counter() + seconds
    while len(durations) < fewest or time.perf_counter() < end:
        durations.append(_call(wrapper, inputs))
    return durations


def _in_turns(
    wrapper: Wrapper, inputs: Mapping[str, Array], seconds: float
) -> tuple[list[float], list[float]]:
    """Time whole calls and engine calls, in turns that are short beside what disturbs a machine."""
    calls: list[float] = []
    engine: list[float] = []
    turn = seconds / 100
    end = time.perf_counter() + seconds
    while len(calls) < FEWEST or time.perf_counter() < end:
        calls += _calls(wrapper, inputs, turn / 2, fewest=1)
        with wrapper.time_execution() as timing:
            _calls(wrapper, inputs, turn / 2, fewest=1)
        engine += timing.seconds
    return calls, engine


def _call(wrapper: Wrapper, inputs: Mapping[str, Array]) -> float:
    start = time.perf_counter()
    wrapper(inputs)
    wrapper.synchronize()
    return time.perf_counter() - start


def _notes(calls: Sequence[float]) -> Iterator[str]:
    """Say why these figures are a poor guess of the next run's."""
    half = len(calls) // 2
    before, after = statistics.median(calls[:half]), statistics.median(calls[half:])
    if abs(after / before - 1) > DRIFT:
        direction = "slower" if after > before else "faster"
        yield f"the second half was {abs(after / before - 1):.0%} {direction} than the first{_CARE}"
    mean, median = statistics.fmean(calls), statistics.median(calls)
    if mean > (1 + UNEVEN) * median:
        yield f"the mean is {mean / median:.2g} times the median: few calls took most time{_CARE}"
