"""A wrapper that several threads call, and the errors of its outputs."""

from __future__ import annotations

import random
from collections import deque
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

import enginebay as eb

from .arrays import LAYOUTS
from .tally import PARTS, Tally, in_threads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from enginebay import Wrapper
    from enginebay.authors.arrays import NumpyArray

#: Different inputs, each in every layout.
_CASES = 24
#: Calls after which an output is compared again and released.
_KEPT = 16


class Net(nn.Module):
    """A convolution, a product of matrices, and an output that is an input in another shape."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.linear = nn.Linear(8, 16)

    def forward(
        self, image: torch.Tensor, rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return features N×8×12×12, mixed N×5×16 and flat N×40, all float32."""
        features = self.conv(image).relu()
        mixed = self.linear(rows).softmax(-1) + features.mean((2, 3)).mean(1)[:, None, None]
        return features, mixed, rows.flatten(1)


def deploy(folder: Path, backend: str) -> eb.Deployment:
    """Deploy the model, with an open batch."""
    torch.manual_seed(0)
    batch = {0: ("batch", 1, 4)}
    return eb.deploy(
        Net(),
        (torch.randn(2, 3, 12, 12), torch.randn(2, 5, 8)),
        work_dir=folder,
        backend=backend,
        dynamic={"image": batch, "rows": batch},
        export=eb.ExportOptions(output_names=["features", "mixed", "flat"]),
    )


class ConcurrentCalls:
    """Calls of one wrapper from several threads.

    Args:
        wrapper: The wrapper of the deployed model.
        seed: The random seed of the inputs and their order.
    """

    def __init__(self, wrapper: Wrapper, seed: int) -> None:
        self.tally = Tally()
        self._wrapper = wrapper
        self._seed = seed
        draw = np.random.default_rng(seed)
        inputs = [
            {
                "image": draw.standard_normal((size, 3, 12, 12), np.float32),
                "rows": draw.standard_normal((size, 5, 8), np.float32),
            }
            for size in draw.integers(1, 4, _CASES).tolist()
        ]
        self._inputs = inputs
        # All threads share the same arrays, so that a write into an array shows in every thread.
        self._feeds = [
            {how: {name: lay(each) for name, each in feed.items()} for how, lay in LAYOUTS.items()}
            for feed in inputs
        ]
        # Bit for bit: each call does the same arithmetic in the same order, whatever else runs.
        self._expected = [
            {name: array.copy() for name, array in wrapper(feed).items()} for feed in inputs
        ]

    def run(self, calls: int, threads: int) -> None:
        """Call about ``calls`` times, in all threads together."""
        each = ceil(calls / threads / PARTS)

        def work(index: int) -> Iterator[None]:
            draw = random.Random(self._seed + index)
            kept: deque[tuple[int, dict[str, Any]]] = deque()
            for _ in range(PARTS):
                for _ in range(each):
                    self._call(draw, kept)
                yield
            while kept:
                self._release(kept)

        in_threads(self.tally, threads, work)
        self.tally.add("count", each * PARTS * threads)
        for feed, layouts in zip(self._inputs, self._feeds, strict=True):
            for how, given in layouts.items():
                if not _equal(feed, given):
                    self.tally.add("aliased", note=f"an input has changed ({how})")

    def _call(self, draw: random.Random, kept: deque[tuple[int, dict[str, Any]]]) -> None:
        case, how = draw.randrange(_CASES), draw.choice(list(LAYOUTS))
        feed = self._feeds[case][how]
        try:
            outputs = self._wrapper(feed)
        except Exception as err:  # the table shows any error
            self.tally.add("raised", note=f"{how}: {err!r}")
            return
        if not _equal(self._expected[case], outputs):
            self.tally.add("wrong", note=f"{how}, batch {len(feed['rows'])}")
            return
        others = [*feed.values(), *(each for _, old in kept for each in old.values())]
        for name, output in outputs.items():
            if any(_overlap(output, other) for other in others):
                self.tally.add("aliased", note=f"'{name}' has memory of something else ({how})")
            others.append(output)
        kept.append((case, outputs))
        if len(kept) > _KEPT:
            self._release(kept)

    def _release(self, kept: deque[tuple[int, dict[str, Any]]]) -> None:
        case, outputs = kept.popleft()
        if not _equal(self._expected[case], outputs):
            self.tally.add("aliased", note="an output has changed after later calls")


def _equal(wanted: Mapping[str, NumpyArray], found: Mapping[str, Any]) -> bool:
    return wanted.keys() == found.keys() and all(
        np.array_equal(wanted[name], np.asarray(value)) for name, value in found.items()
    )


def _overlap(one: Any, other: Any) -> bool:
    return np.may_share_memory(np.asarray(one), np.asarray(other))
