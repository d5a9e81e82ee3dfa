"""Of a saturated output, most values may be nearly 0; the others are no peaks."""

from __future__ import annotations

import numpy as np
import pytest

from enginebay.authors.arrays import compare_outputs

RANDOM = np.random.default_rng(0)
TINY = RANDOM.uniform(1e-9, 1e-5, 700)
#: What more than half of the values are → the other values, and if they count for the magnitude.
OTHERS = {
    "a saturated tanh": (RANDOM.uniform(0.2, 1, 300), True),
    "a few peaks": (RANDOM.uniform(0.2, 1, 30), False),
    "a mask's replacement of infinity": (np.full(300, -1e4), False),
}


def passes(values: np.ndarray, error: float) -> bool:
    expected = values.astype(np.float32)
    found = expected.copy()
    found[0] += np.float32(error)
    (output,) = compare_outputs({"y": expected}, {"y": found})
    return output.passed


@pytest.mark.parametrize("case", OTHERS)
def test_errors_of_small_values_are_measured_by_what_is_usual(case: str) -> None:
    others, are_usual = OTHERS[case]
    values = np.concatenate([TINY, others])
    # The rounding of a value near 1 is an error of the others, as far as they count.
    assert passes(values, 1e-7) == are_usual
    assert not passes(values, 1e-3)
