"""The tolerance of scores, which are the results of a sigmoid or a softmax.

An engine that computes a logit with an error of e has an error of p(1 - p)e in the score p. So a
score may differ by as much as a difference of its logit that the tolerance allows, whose scale is
the magnitude of all logits of the output. Most scores of a detector are nearly 0, and so is their
own magnitude, but their logits are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.verification.output_arrays import widen_dtype

if TYPE_CHECKING:
    from enginebay.tensors import NumpyArray
    from enginebay.verification.tolerance import Tolerance

#: Eight roundings of a number near 1, as many as a network's layers make in its result.
_ROUNDED_ONE = 2.0**-20

#: An error that passes is so many times below the largest score, or the score could be anything.
_LEAST_RATIO = 16

#: The magnitude of the logits of a larger output is measured on about as many.
_MEASURED = 1 << 20


def allow_for_scores(tolerance: Tolerance, values: NumpyArray, peak: float) -> Tolerance:
    """Return the tolerance of an output of scores; unchanged if a value is not between 0 and 1.

    Args:
        tolerance: The tolerance without regard to scores.
        values: The output.
        peak: The output's largest score in all samples.
    """
    import numpy as np

    finite = values[np.isfinite(values)]
    if not finite.size or finite.min() < 0 or finite.max() > 1:
        return tolerance
    some = widen_dtype(finite[:: 1 + finite.size // _MEASURED])
    inner = some[(some > 0) & (some < 1)]
    logits = np.log(inner) - np.log1p(-inner)
    return msgspec.structs.replace(
        tolerance,
        atol=max(tolerance.atol, min(_ROUNDED_ONE, peak / _LEAST_RATIO)),
        logits=float(np.sqrt(np.mean(logits**2))) if inner.size else 0.0,
    )
