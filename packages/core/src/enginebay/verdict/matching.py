"""Records of a comparator: its request, its result for a sample, and the sum over all samples.

A comparator compares outputs that are sets, such as detections: it decides which rows belong
together, and :mod:`enginebay.verification` compares these element by element.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec


class Allowed(Protocol):
    """Computes the allowed error of values from dtype, precision and the user's options."""

    def __call__(self, output: str, values: Any, scale: Any = None) -> Any:
        """Return the largest allowed error of each value.

        Args:
            output: The name of the output with these values.
            values: Some of the reference's values, in NumPy.
            scale: The values whose magnitude counts: a value near 0 carries the rounding errors of
                larger ones. By default, the values themselves.
        """
        ...


class ComparisonRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to compare some outputs of one sample.

    Attributes:
        expected: The reference's outputs that the user named, in that order, in NumPy.
        found: The artifact's outputs. Names, dtypes and ranks are the same; sizes may differ.
        allowed: The allowed errors: ``request.allowed("scores", scores)`` returns an array.
        every: The reference's outputs of all samples, to find a constant such as a threshold; empty
            if two samples are compared with each other.
    """

    expected: Mapping[str, Any]
    found: Mapping[str, Any]
    allowed: Allowed
    every: tuple[Mapping[str, Any], ...] = ()


class Aligned(msgspec.Struct, frozen=True, kw_only=True):
    """Values of one output that belong together, for core to compare element by element.

    Attributes:
        output: The output's name.
        expected: The reference's values, an array of any shape.
        found: The artifact's values, in the same order.
        places: The index of each row in the reference's output, without the trailing axes that
            both share: integers of shape ``[len(expected), …]``; None for the whole output.
        scale: The values whose magnitude counts for the tolerance; None for ``expected``.
        part: Name of this part, if the output has several: ``scores``.
        noise_only: True for values that one side lacks, filled with 0. They are not compared, but
            count as noise in the signal-to-noise ratio of an 8-bit engine.
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
        passed: True if they agree; values in ``aligned`` are core's to decide.
        matched: Number of the reference's pairs, rows or elements that were found again.
        expected_alone: Number of the reference's that have no match.
        found_alone: Number of the artifact's that have no match.
        excused: Number without a match that need none; not in the two counts above.
        reason: The failure; empty if it passed.
        worst: The worst pair, or the worst without a match, for the user.
        badness: Sort key: the ``worst`` of the sample with the largest badness is shown.
        aligned: Values for core to compare element by element.
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
    """A comparator's results over all samples.

    Attributes:
        comparator: Its name, as typed by the user: ``detections:0.5``.
        outputs: Names of the outputs that it compared.
        samples: Number of samples.
        matched: Number of the reference's pairs, rows or elements that were found again.
        expected_alone: Number of the reference's that have no match.
        found_alone: Number of the artifact's that have no match.
        excused: Number without a match that need none.
        worst: The worst pair, or the worst without a match.
        sample: Label of its sample: ``example``, ``item 3``, or a probe such as ``redrawn``.
        passed: True if the outputs agree in every sample.
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
        """Describe the numbers of matches and the worst of them in one line."""
        text = f"{self.comparator} of {', '.join(self.outputs)}: {self.matched} matched"
        if self.expected_alone or self.found_alone:
            text += f", {self.expected_alone} expected and {self.found_alone} found without a match"
        if self.excused:
            text += f", {self.excused} excused"
        return f"{text}; worst in {self.sample}: {self.worst}" if self.worst else text
