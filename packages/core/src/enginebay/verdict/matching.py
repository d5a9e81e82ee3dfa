"""The request to a comparator, its result, and what it found in all samples, as records.

A comparator holds outputs that are sets, such as detections, against the reference's: it says which
rows belong together, and :mod:`enginebay.verification` holds these place by place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec


class Allowed(Protocol):
    """The tolerance of an output's values, as the dtype, the precision and the user set it."""

    def __call__(self, output: str, values: Any, scale: Any = None) -> Any:
        """Return how far each of these values may be off.

        Args:
            output: The output that they come from.
            values: Some of the reference's values, in NumPy.
            scale: The values whose magnitude counts, which carries rounding to values near 0; by
                default the values themselves.
        """
        ...


class ComparisonRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to compare some outputs of one sample.

    Attributes:
        expected: The reference's outputs that the user named, in that order, in NumPy.
        found: The artifact's. Names, dtypes and ranks are the same; sizes need not be.
        allowed: How far values may be off: ``request.allowed("scores", scores)`` is an array.
        every: The reference's outputs in every sample, for what is the same in all of them, such as
            a threshold; empty where only two samples are compared.
    """

    expected: Mapping[str, Any]
    found: Mapping[str, Any]
    allowed: Allowed
    every: tuple[Mapping[str, Any], ...] = ()


class Aligned(msgspec.Struct, frozen=True, kw_only=True):
    """Values of one output that belong together, for core to hold place by place.

    Attributes:
        output: The output's name.
        expected: The reference's values, an array of any shape.
        found: The artifact's, in the same order.
        places: The index of each of them in the reference's output, without the last axes that
            both have: integers of shape ``[len(expected), …]``; None where they are all of it.
        scale: The values whose magnitude counts for the tolerance; None for ``expected``.
        part: Which part of the output this is, where it has several: ``scores``.
        noise_only: True for values that one side lacks and has 0 for. They are not held place by
            place, but are noise in the signal of an 8-bit engine.
    """

    output: str
    expected: Any
    found: Any
    places: Any = None
    scale: Any = None
    part: str = ""
    noise_only: bool = False


class ComparisonResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of comparing some outputs of one sample.

    Attributes:
        passed: True if they agree, as far as ``aligned`` leaves that to the comparator.
        matched: How much of the reference's was found again: pairs, rows, places.
        expected_alone: How much of the reference's has no counterpart.
        found_alone: How much of the artifact's has none.
        excused: How much has none, and may: it is in neither count.
        reason: What is wrong; empty where it passed.
        worst: The worst pair, or the worst of what has no counterpart, for the user.
        badness: The larger, the sooner is this sample's ``worst`` shown.
        aligned: Values that core is to hold place by place as well.
    """

    passed: bool
    matched: int
    expected_alone: int = 0
    found_alone: int = 0
    excused: int = 0
    reason: str = ""
    worst: str = ""
    badness: float = 0.0
    aligned: tuple[Aligned, ...] = ()


class Matching(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparator found in outputs that are sets, over all samples.

    Attributes:
        comparator: Its name, as it was typed: ``detections:0.5``.
        outputs: What it compared.
        samples: In how many samples.
        matched: How much of the reference's was found again: pairs, rows, places.
        expected_alone: How much of the reference's has no counterpart.
        found_alone: How much of the artifact's has none.
        excused: How much has none, and may.
        worst: The worst pair, or what has no counterpart.
        sample: Where that is: ``example``, ``item 3``, or a probe such as ``redrawn``.
        passed: True if it agrees in every sample.
    """

    comparator: str
    outputs: tuple[str, ...]
    samples: int
    matched: int
    expected_alone: int
    found_alone: int
    excused: int
    worst: str
    sample: str
    passed: bool

    def describe(self) -> str:
        """One line: what was matched, what was not, and the worst of it."""
        text = f"{self.comparator} of {', '.join(self.outputs)}: {self.matched} matched"
        if self.expected_alone or self.found_alone:
            text += f", {self.expected_alone} expected and {self.found_alone} found without partner"
        if self.excused:
            text += f", {self.excused} excused"
        return f"{text}; worst in {self.sample}: {self.worst}" if self.worst else text
