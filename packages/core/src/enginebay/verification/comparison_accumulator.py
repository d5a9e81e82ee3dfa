"""Error metrics of one output, accumulated chunk by chunk."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import msgspec

from enginebay.verification.output_arrays import widen_dtype

if TYPE_CHECKING:
    from enginebay.tensors import NumpyArray
    from enginebay.verdict import OutputComparison
    from enginebay.verification.tolerance import Tolerance


#: A value this close to pi counts as an angle at the end of its range.
_ANGLE_END_RADIANS = 1e-3


class ComparisonAccumulator:
    """Accumulates the error metrics of one output, chunk by chunk.

    Args:
        tolerance: The tolerance of every element.
        exact: True for integers, bools and texts, to which ``rtol`` does not apply.
    """

    def __init__(self, tolerance: Tolerance, *, exact: bool) -> None:
        self.tolerance = tolerance
        self.exact = exact
        self.mismatched = self.one_sided = self.nan_in_both = self.worst_at = 0
        self.rounded = 0
        self.max_abs = self.max_rel = self.required_rtol = 0.0
        # Below every score, so that an output without errors has a worst element too.
        self.worst_score = -1.0
        self.worst_scale = 0.0

    def add_chunk(self, start: int, left: NumpyArray, right: NumpyArray, scale: NumpyArray) -> None:
        """Add a chunk of both flattened outputs; ``start`` is the index of its first element."""
        import numpy as np

        with np.errstate(all="ignore"):
            same, error, size = _compute_differences(left, right)
            if self.tolerance.logits is not None:
                scale = np.fmax(scale, size * (1 - size) * self.tolerance.logits)
            # An infinite reach would let every error pass.
            reach = np.minimum(size + scale, sys.float_info.max)
            allowed = self.tolerance.atol + self.tolerance.rtol * reach
            # Written as "not <=": NaN fails every comparison, and must count as a mismatch.
            differs = ~(same | (error <= allowed))
            self.mismatched += int(np.count_nonzero(differs))
            if (rounding := self.tolerance.rounding) is not None:
                self.rounded += int(np.count_nonzero(error[differs] <= rounding.error))
            required = _compute_required_rtol(error, reach, self.tolerance)
            finite = np.isfinite(error)
            relative = error[finite & (size > 0)] / size[finite & (size > 0)]
        self.one_sided += int(np.count_nonzero(np.isnan(error)))
        if not self.exact:
            self.nan_in_both += int(np.count_nonzero(np.isnan(left) & np.isnan(right)))
        self.required_rtol = max(self.required_rtol, float(required.max()))
        self.max_abs = max(self.max_abs, float(error[finite].max(initial=0.0)))
        self.max_rel = max(self.max_rel, float(relative.max(initial=0.0)))
        score = error if self.exact else required
        worst = int(score.argmax())
        if score[worst] > self.worst_score:
            self.worst_score, self.worst_at = float(score[worst]), start + worst
            self.worst_scale = float(scale[worst])

    def fill_comparison(
        self, result: OutputComparison, expected: NumpyArray, found: NumpyArray
    ) -> OutputComparison:
        """Return a copy of ``result`` that contains the accumulated error metrics."""
        import numpy as np

        if expected.size == 0:
            return msgspec.structs.replace(result, passed=True, reason="both outputs are empty")
        worst = tuple(int(i) for i in np.unravel_index(self.worst_at, expected.shape))
        tolerance = self.tolerance
        # Too many elements that only rounding explains are explained by something else.
        if tolerance.rounding is None or self.rounded > tolerance.rounding.elements:
            self.rounded = 0
        self.mismatched -= self.rounded
        return msgspec.structs.replace(
            result,
            total=expected.size,
            mismatched_count=self.mismatched,
            # JSON has no infinity, so the errors are limited to the largest float.
            max_abs_error=min(self.max_abs, sys.float_info.max),
            max_rel_error=min(self.max_rel, sys.float_info.max),
            worst_index=worst,
            worst_expected=_format_value(expected[worst]),
            worst_found=_format_value(found[worst]),
            rtol=tolerance.rtol,
            atol=min(tolerance.atol + tolerance.rtol * self.worst_scale, sys.float_info.max),
            rtol_that_passes=self._passing_rtol(),
            atol_that_passes=None if expected.dtype.kind in "bOSU" else self._passing_atol(),
            is_score=tolerance.logits is not None,
            passed=self.mismatched == 0,
            reason=self._describe_mismatches(expected.size),
            rounded_count=self.rounded,
        )

    def _passing_rtol(self) -> float | None:
        if self.exact and self.mismatched:
            return None
        return _round_up(self.required_rtol)

    def _passing_atol(self) -> float | None:
        if self.one_sided:  # NaN or infinity against a number: no tolerance is enough
            return None
        return self.max_abs if self.exact else _round_up(self.max_abs)

    def _describe_mismatches(self, total: int) -> str:
        parts = []
        if self.mismatched:
            parts.append(f"{self.mismatched} of {total} elements differ")
        if self.one_sided:
            parts.append(f"{self.one_sided} of them NaN or infinite in one output only")
        if self.rounded:
            parts.append(f"{self.rounded} of {total} elements differ by rounding")
        # NaN in both passes, but the reader should know.
        if self.nan_in_both:
            parts.append(f"{self.nan_in_both} of {total} elements are NaN in both")
        return ", ".join(parts)


def _round_up(value: float) -> float | None:
    value *= 1.006  # more than half of the third digit, so that rounding never goes below
    return float(f"{value:.3g}") if math.isfinite(value) else None


def _format_value(value: object) -> str:
    return repr(str(value)[:80]) if isinstance(value, str | bytes) else str(value)


def _compute_differences(
    left: NumpyArray, right: NumpyArray
) -> tuple[NumpyArray, NumpyArray, NumpyArray]:
    """Return a mask of equal elements, the errors ``|right - left|``, and ``|left|``.

    The error is NaN if the values differ and at least one is NaN or infinite.
    """
    import numpy as np

    same = left == right
    if left.dtype.kind in "OSU":
        return same, np.where(same, 0.0, 1.0), np.zeros(left.size)
    wide, other = widen_dtype(left), widen_dtype(right)
    error = np.abs(other - wide)
    # +pi and -pi are the same angle, and the sign of a zero decides between them (atan2).
    if left.dtype.kind == "f":
        at_ends = (np.abs(np.abs([wide, other]) - np.pi) < _ANGLE_END_RADIANS).all(0)
        turned = at_ends & (wide * other < 0)
        error[turned] = np.abs(error[turned] - 2 * np.pi)
    if left.dtype.kind in "biu":
        # Neighbours beyond 2^53 are the same number in float64, but at least 1 apart.
        return same, np.where(same, 0.0, np.maximum(error, 1.0)), np.abs(wide)
    same |= np.isnan(wide) & np.isnan(other)
    error[~(np.isfinite(wide) & np.isfinite(other))] = np.nan
    # The difference of two equal infinities is NaN.
    error[same] = 0.0
    error = np.minimum(error, sys.float_info.max)  # the difference of two float64 may overflow
    return same, error, np.abs(wide)


def _compute_required_rtol(
    error: NumpyArray, reach: NumpyArray, tolerance: Tolerance
) -> NumpyArray:
    """Return for each element the smallest ``rtol`` with which it passes; infinity if none does."""
    import numpy as np

    excess = np.maximum(error - tolerance.atol, 0.0)
    required = np.where(excess == 0, 0.0, excess / reach)
    return np.where(np.isnan(required), np.inf, required)
