"""How long the engine alone takes, counted where a wrapper calls it."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from enginebay.inference.wrapper import Wrapper


class Timing:
    """The engine calls of one wrapper, in seconds, the warm-up calls left out.

    Args:
        warmup: How many first calls are not counted.
        with_sync: Wait for the device before each clock reading, so that asynchronous work is
            counted. Engines that return finished results ignore it.

    Attributes:
        seconds: One duration for each counted call, in order.
    """

    def __init__(self, *, warmup: int = 0, with_sync: bool = True) -> None:
        self.warmup = warmup
        self.with_sync = with_sync
        self.seconds: list[float] = []
        self._calls = 0

    def measure(
        self,
        wrapper: Wrapper,
        execute: Callable[[Any], Sequence[Any]],
        feed: Mapping[str, Any],
    ) -> Sequence[Any]:
        """Run one engine call and count it."""
        if self.with_sync:
            wrapper.synchronize()
        start = time.perf_counter()
        outputs = execute(feed)
        if self.with_sync:
            wrapper.synchronize()
        elapsed = time.perf_counter() - start
        self._calls += 1
        if self._calls > self.warmup:
            self.seconds.append(elapsed)
        return outputs

    @property
    def count(self) -> int:
        """How many calls were counted."""
        return len(self.seconds)

    def statistics(self) -> dict[str, float]:
        """Median, mean, standard deviation, minimum, maximum and 90th percentile, in seconds.

        Raises:
            ValueError: No call was counted yet.
        """
        if not self.seconds:
            raise ValueError(f"no engine call was counted (warm-up: {self.warmup})")
        ordered = sorted(self.seconds)
        return {
            "median": statistics.median(ordered),
            "mean": statistics.fmean(ordered),
            "stdev": statistics.pstdev(ordered),
            "min": ordered[0],
            "max": ordered[-1],
            "p90": ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))],
        }
