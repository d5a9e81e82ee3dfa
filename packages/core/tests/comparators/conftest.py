"""A fixture that runs a comparator on two sets of outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from enginebay.comparators import find_comparators
from enginebay.verification.sample_comparison import compare_sample, summarize_matchings
from enginebay.verification.set_comparison import ToleranceOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.verdict import Matching, OutputComparison


class Found(NamedTuple):
    """The comparisons of all outputs, and the matching of the comparator."""

    outputs: dict[str, OutputComparison]
    matching: Matching

    @property
    def passed(self) -> bool:
        """True if all outputs agree."""
        return all(output.passed for output in self.outputs.values())


@pytest.fixture
def compared() -> Callable[..., Found]:
    """Compare two sets of outputs: ``compared("detections:0.5", expected, found)``."""

    def run(comparator: Any, expected: Any, found: Any, precision: str = "fp32") -> Found:
        comparators = find_comparators({tuple(expected): comparator})
        result = compare_sample(expected, found, ToleranceOptions(precision), comparators)
        (matching,) = summarize_matchings(comparators, ["example"], [result])
        return Found({output.name: output for output in result.outputs}, matching)

    return run
