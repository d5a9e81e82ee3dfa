"""One output's places, a chunk at a time, summed up."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.verification.output_arrays import widen

if TYPE_CHECKING:
    import numpy as np

    from enginebay.verdict import OutputComparison
    from enginebay.verification.tolerance import Tolerance


#: A value this near to pi is taken for an angle at its end.
_NEAR = 1e-3


class Tally:
    """The figures of one output, after some of its chunks.

    Args:
        tolerance: What every place is held to.
        exact: Whether the output is counted, not measured: integers, bools, texts.
    """

    def __init__(self, tolerance: Tolerance, *, exact: bool) -> None:
        self.tolerance = tolerance
        self.exact = exact
        self.mismatched = self.one_sided = self.nan_in_both = self.worst_at = 0
        self.max_abs = self.max_rel = self.needed = 0.0
        self.worst_score = -1.0
        self.worst_scale = 0.0

    def add(
        self,
        start: int,
        left: np.ndarray[Any, Any],
        right: np.ndarray[Any, Any],
        scale: np.ndarray[Any, Any],
    ) -> None:
        """Take in a chunk of the flattened outputs that begins at place ``start``."""
        import numpy as np

        with np.errstate(all="ignore"):
            same, error, size = _differences(left, right)
            reach = np.minimum(size + scale, sys.float_info.max)  # infinity would pass everything
            allowed = self.tolerance.atol + self.tolerance.rtol * reach
            # NaN is on the failing side of every comparison that is written this way round.
            self.mismatched += int(np.count_nonzero(~(same | (error <= allowed))))
            needed = _needed(error, reach, self.tolerance)
            finite = np.isfinite(error)
            relative = error[finite & (size > 0)] / size[finite & (size > 0)]
        self.one_sided += int(np.count_nonzero(np.isnan(error)))
        if not self.exact:
            self.nan_in_both += int(np.count_nonzero(np.isnan(left) & np.isnan(right)))
        self.needed = max(self.needed, float(needed.max()))
        self.max_abs = max(self.max_abs, float(error[finite].max(initial=0.0)))
        self.max_rel = max(self.max_rel, float(relative.max(initial=0.0)))
        score = error if self.exact else needed
        place = int(score.argmax())
        if score[place] > self.worst_score:
            self.worst_score, self.worst_at = float(score[place]), start + place
            self.worst_scale = float(scale[place])

    def fill(
        self,
        result: OutputComparison,
        wanted: np.ndarray[Any, Any],
        given: np.ndarray[Any, Any],
    ) -> OutputComparison:
        """The finished comparison."""
        import numpy as np

        if wanted.size == 0:
            return msgspec.structs.replace(result, passed=True, reason="it is empty in both")
        place = tuple(int(i) for i in np.unravel_index(self.worst_at, wanted.shape))
        tolerance = self.tolerance
        return msgspec.structs.replace(
            result,
            total=wanted.size,
            mismatched_count=self.mismatched,
            max_abs_error=min(self.max_abs, sys.float_info.max),
            max_rel_error=min(self.max_rel, sys.float_info.max),
            worst_index=place,
            worst_expected=_shown(wanted[place]),
            worst_found=_shown(given[place]),
            rtol=tolerance.rtol,
            atol=min(tolerance.atol + tolerance.rtol * self.worst_scale, sys.float_info.max),
            rtol_that_passes=self._rtol_that_passes(),
            atol_that_passes=None if wanted.dtype.kind in "bOSU" else self._atol_that_passes(),
            passed=self.mismatched == 0,
            reason=self._reason(wanted.size),
        )

    def _rtol_that_passes(self) -> float | None:
        """The needed rtol; None where none would pass."""
        if self.exact and self.mismatched:
            return None
        return _rounded_up(self.needed)

    def _atol_that_passes(self) -> float | None:
        """The largest error; None where a place has none that is a number."""
        if self.one_sided:
            return None
        return self.max_abs if self.exact else _rounded_up(self.max_abs)

    def _reason(self, total: int) -> str:
        """The elements that are wrong, or NaN in both, which pass but should be seen."""
        parts = []
        if self.mismatched:
            parts.append(f"{self.mismatched} of {total} places differ")
        if self.one_sided:
            parts.append(f"{self.one_sided} of them NaN or infinite in one only")
        if self.nan_in_both:
            parts.append(f"NaN in both in {self.nan_in_both} of {total} places")
        return ", ".join(parts)


def _rounded_up(value: float) -> float | None:
    """Three digits, none of them too small; None for infinity."""
    value *= 1.006
    return float(f"{value:.3g}") if math.isfinite(value) else None


def _shown(value: object) -> str:
    """One element as text on one line."""
    return repr(str(value)[:80]) if isinstance(value, str | bytes) else str(value)


def _differences(
    left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Per place: whether it is the same, ``|right - left|``, ``|left|``.

    The error is NaN where one side is not finite and the other is not the same.
    """
    import numpy as np

    same = left == right
    if left.dtype.kind in "OSU":
        return same, np.where(same, 0.0, 1.0), np.zeros(left.size)
    wide, other = widen(left), widen(right)
    error = np.abs(other - wide)
    if left.dtype.kind == "f":  # +pi and -pi are one angle, and the sign of a zero decides
        turned = (np.abs(np.abs([wide, other]) - np.pi) < _NEAR).all(0) & (wide * other < 0)
        error[turned] = np.abs(error[turned] - 2 * np.pi)
    if left.dtype.kind in "biu":
        # Neighbours beyond 2^53 are one number in float64, but at least 1 apart.
        return same, np.where(same, 0.0, np.maximum(error, 1.0)), np.abs(wide)
    same |= np.isnan(wide) & np.isnan(other)
    error[~(np.isfinite(wide) & np.isfinite(other))] = np.nan
    error[same] = 0.0
    error = np.minimum(error, sys.float_info.max)  # the difference of two float64 may overflow
    return same, error, np.abs(wide)


def _needed(
    error: np.ndarray[Any, Any], reach: np.ndarray[Any, Any], tolerance: Tolerance
) -> np.ndarray[Any, Any]:
    """The rtol that each place needs to pass; infinite where none would do."""
    import numpy as np

    excess = np.maximum(error - tolerance.atol, 0.0)
    needed = np.where(excess == 0, 0.0, excess / reach)
    return np.where(np.isnan(needed), np.inf, needed)
