"""The comparator ``class-map``, which lets rounding change the class of a few pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from enginebay.errors import UsageError
from enginebay.hooks import ComparisonResult

if TYPE_CHECKING:
    from enginebay.hooks import ComparisonRequest

#: Rounding decides at the borders between classes, which are few of all pixels.
_DEFAULT_SHARE = 0.001


class ClassMap:
    """Compares the class of each pixel, and excuses a share of differing pixels in each sample.

    Where two classes have nearly the same score, a rounding error changes the largest one.

    Args:
        argument: The share of pixels that may differ, as text; empty for 0.001.
    """

    def __init__(self, argument: str) -> None:
        self.share = _parse_share(argument) if argument else _DEFAULT_SHARE

    def __call__(self, request: ComparisonRequest) -> ComparisonResult:
        """Compare the classes of one sample, and return the result."""
        ((name, expected), *others) = request.expected.items()
        if others or expected.dtype.kind not in "iu":
            found = ", ".join(f"'{n}' {array.dtype}" for n, array in request.expected.items())
            raise UsageError(
                "the comparator 'class-map' expects one output with the class index of each "
                f"pixel, as integers; found {found}",
                hint=f"compare each such output separately: --compare {name}=class-map",
            )
        array = request.found[name]
        if array.shape != expected.shape:
            reason = (
                f"the shape of '{name}' differs: expected {expected.shape}, found {array.shape}"
            )
            return ComparisonResult(passed=False, matched=0, reason=reason)
        places = np.argwhere(expected != array)
        differing, passed = len(places), len(places) <= self.share * expected.size
        worst = ""
        if differing:
            place = tuple(places[0].tolist())
            worst = f"at {list(place)}: expected class {expected[place]}, found {array[place]}"
        return ComparisonResult(
            passed=passed,
            matched=expected.size - differing,
            expected_alone=0 if passed else differing,
            excused=differing if passed else 0,
            reason="" if passed else f"{differing} of {expected.size} pixels have another class",
            worst=worst,
            badness=differing,
        )


def _parse_share(argument: str) -> float:
    try:
        share = float(argument)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:  # NaN is not
        raise UsageError(
            f"invalid share in 'class-map:{argument}'; expected a share of the pixels that may "
            "differ, at least 0 and below 1, such as 0.001"
        )
    return share
