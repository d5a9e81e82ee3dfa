"""Records of comparators: a request, the result for one sample, and the sum over all samples.

A comparator compares outputs that are sets, such as detections: it decides which rows match, and
:mod:`enginebay.verification` compares matched rows element by element.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Allowed(Protocol):
    """Protocol of a function that computes allowed errors from an output's dtype and tolerance."""

    def __call__(self, output: str, values: ArrayLike, scale: ArrayLike | None = None) -> Any:
        """Return the largest allowed error of each value.

        Args:
            output: The name of the output with these values.
            values: An array of values of the reference.
            scale: The values whose magnitude the errors may be relative to, since a value near 0
                may have the rounding errors of larger values. By default, ``values``.
        """
        ...


class ComparisonRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to compare some outputs of one sample.

    Attributes:
        expected: The reference's outputs that the user named, in the order of the names, as NumPy
            arrays.
        found: The artifact's outputs, with the same names, dtypes and ranks; sizes may differ.
        allowed: Computes allowed errors: ``request.allowed("scores", scores)`` returns an array.
        every: The reference's outputs of all samples, from which a comparator may estimate a
            constant such as a threshold; empty if both sides are outputs of the model, which are
            compared to find out how much rounding errors change them.
    """

    expected: Mapping[str, Any]
    found: Mapping[str, Any]
    allowed: Allowed
    every: tuple[Mapping[str, Any], ...] = ()


class Aligned(msgspec.Struct, frozen=True, kw_only=True):
    """Matched values of one output, which core compares element by element.

    Attributes:
        output: The output's name.
        expected: The reference's values, an array of any shape.
        found: The artifact's values, an array of the same shape in the same order.
        places: An array of integers, in which row ``i`` is the index of ``expected[i]`` in the
            reference's output; None if ``expected`` is the whole output.
        scale: The values whose magnitude the tolerance is relative to; None stands for
            ``expected``.
        part: The kind of the values, if the output contains several kinds: ``scores``.
        noise_only: True for values without a match, which are paired with 0. Such values are not
            compared, but count as noise in the signal-to-noise ratio of an 8-bit engine.
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
        passed: True if the outputs agree, regardless of the values in ``aligned``.
        matched: Number of the reference's rows (a row is a box, or a place in a ranking) that match
            a row of the artifact.
        expected_alone: Number of the reference's rows without a match.
        found_alone: Number of the artifact's rows without a match.
        excused: Number of rows that need no match, such as a box whose score is at the model's
            threshold; ``expected_alone`` and ``found_alone`` do not include them.
        reason: Why the outputs differ; empty if they agree.
        worst: Description of the worst match, or of a row without a match, for the user.
        badness: Sort key of the samples: users read ``worst`` of the sample with the largest key.
        aligned: Matched values, which core compares element by element.
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
        comparator: The comparator as typed by the user: ``detections:0.5``.
        outputs: Names of the compared outputs.
        samples: Number of samples.
        matched: Number of the reference's rows (a row is a box, or a place in a ranking) that match
            a row of the artifact.
        expected_alone: Number of the reference's rows without a match.
        found_alone: Number of the artifact's rows without a match.
        excused: Number of rows that need no match, such as a box whose score is at the model's
            threshold.
        worst: Description of the worst match, or of a row without a match.
        sample: Label of the sample with the worst match: ``example``, ``item 3``, or ``redrawn``
            (generated inputs).
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
        """Describe the numbers of matches and the worst match in one line."""
        text = f"{self.comparator} of {', '.join(self.outputs)}: {self.matched} matched"
        if self.expected_alone or self.found_alone:
            text += f", {self.expected_alone} expected and {self.found_alone} found without a match"
        if self.excused:
            text += f", {self.excused} excused"
        return f"{text}; worst in {self.sample}: {self.worst}" if self.worst else text
