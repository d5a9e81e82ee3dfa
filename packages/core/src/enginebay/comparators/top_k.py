"""``top-k``: the same K best classes in the same order, with their scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from enginebay.comparators.reading import positive_number
from enginebay.errors import UsageError
from enginebay.verdict import Aligned, ComparisonResult

if TYPE_CHECKING:
    from enginebay.tensors import NumpyArray
    from enginebay.verdict import Allowed, ComparisonRequest

#: As ImageNet counts.
_DEFAULT = 5


class TopK:
    """Compares the best classes and their scores; the other classes may have any.

    One output: scores of all classes along the last axis, or the best classes themselves, if they
    are integers. Two: the scores of the best, and which classes these are, as ``torch.topk`` has
    them.

    An engine whose scores are each within their tolerance may exchange two classes only if these
    are no further apart than both tolerances. So the class found in each place must have, in the
    reference, the score of that place up to twice the tolerance. The scores in order are as near
    as the scores themselves, and are held to the tolerance as it is.
    """

    def __init__(self, argument: str) -> None:
        self.k = positive_number("top-k", argument) if argument else _DEFAULT

    def __call__(self, request: ComparisonRequest) -> ComparisonResult:
        """Compare one sample."""
        expected, found = list(request.expected.items()), list(request.found.items())
        self._check(expected)
        for (name, wanted), (_, given) in zip(expected, found, strict=True):
            if wanted.shape != given.shape:
                reason = (
                    f"the shape of '{name}' differs: expected {wanted.shape}, found {given.shape}"
                )
                return ComparisonResult(passed=False, matched=0, reason=reason)
        right, other = _Ranking.of(expected), _Ranking.of(found)
        best, others = right.classes[..., : self.k], other.classes[..., : self.k]
        same = best == others
        aligned: tuple[Aligned, ...] = ()
        if right.scores is not None and other.scores is not None:
            name = expected[0][0]
            same |= self._tied(request.allowed, name, right, others)
            # A NaN is sorted to the end, out of sight.
            same &= (np.isnan(right.scores) == np.isnan(other.scores)).all(-1, keepdims=True)
            aligned = (self._aligned(name, right, other, is_sorted=len(expected) == 2),)
        same &= _distinct(best) == _distinct(others)
        wrong = int(np.count_nonzero(~same))
        return ComparisonResult(
            passed=not wrong,
            matched=same.size - wrong,
            expected_alone=wrong,
            reason=f"{wrong} of {same.size} places have another class" if wrong else "",
            worst=_worst(same, best, others),
            badness=wrong,
            aligned=aligned,
        )

    def _tied(self, allowed: Allowed, name: str, wanted: _Ranking, given: NumpyArray) -> NumpyArray:
        """True where the class found has, in the reference, the score of its place."""
        assert wanted.scores is not None
        at_place = wanted.scores[..., : self.k]
        with np.errstate(invalid="ignore"):
            reach = 2 * allowed(name, wanted.scores, wanted.scores.reshape(-1))
            error = np.abs(_score_of(given, wanted, reach) - at_place)
            near: NumpyArray = error <= reach[..., : self.k]
        return near

    def _aligned(self, name: str, wanted: _Ranking, given: _Ranking, *, is_sorted: bool) -> Aligned:
        """The scores in descending order; each at its place in the reference's output."""
        assert wanted.scores is not None
        assert given.scores is not None
        places = np.indices(wanted.classes.shape).reshape(wanted.classes.ndim, -1).T
        if not is_sorted:
            places[:, -1] = wanted.classes.reshape(-1)
        kept = np.zeros(wanted.classes.shape, bool)
        kept[..., : self.k] = True
        return Aligned(
            output=name,
            expected=wanted.scores[kept],
            found=given.scores[kept],
            places=places[kept.reshape(-1)],
            scale=wanted.scores,
        )

    def _check(self, outputs: list[tuple[str, NumpyArray]]) -> None:
        name, values = outputs[0]
        if len(outputs) > 2 or values.ndim == 0 or values.dtype.kind not in "iuf":
            there = ", ".join(f"'{n}' {array.dtype} {array.shape}" for n, array in outputs)
            raise UsageError(
                "top-k compares numbers of one output along its last axis, or of two as torch.topk "
                f"has them, and not {there}"
            )
        if values.shape[-1] < self.k:
            raise UsageError(
                f"'{name}' has {values.shape[-1]} classes, and top-k:{self.k} compares {self.k}",
                hint=f"--compare {name}=top-k:{values.shape[-1] or 1}",
            )
        if len(outputs) == 2:
            other, classes = outputs[1]
            if classes.shape != values.shape or classes.dtype.kind not in "iu":
                raise UsageError(
                    f"top-k wants '{other}' to be the classes of '{name}', integers of shape "
                    f"{values.shape}, and it is {classes.dtype} {classes.shape}"
                )


class _Ranking(NamedTuple):
    """Classes in descending order of their scores; None where only the classes are known."""

    classes: NumpyArray
    scores: NumpyArray | None

    @classmethod
    def of(cls, outputs: list[tuple[str, NumpyArray]]) -> _Ranking:
        values = outputs[0][1]
        if len(outputs) == 2:
            return cls(outputs[1][1], values)
        if values.dtype.kind in "iu":
            return cls(values, None)
        order = np.argsort(-values, axis=-1, kind="stable")
        return cls(order, np.take_along_axis(values, order, -1))


def _score_of(given: NumpyArray, wanted: _Ranking, reach: NumpyArray) -> NumpyArray:
    """The reference's score of each class found.

    Of ``torch.topk`` only the best are known. A class beyond them may have the last one's score
    where the last two are tied: the tie may go on. Elsewhere it is given NaN, which is near no
    score: else the class in the last place would be compared with nothing.
    """
    classes, scores = wanted
    assert scores is not None
    hits = given[..., :, None] == classes[..., None, :]
    known = np.take_along_axis(scores, hits.argmax(-1), -1)
    last = scores[..., -1:]
    is_tied = scores[..., -2:-1] - last <= reach[..., -1:] if scores.shape[-1] > 1 else False
    result: NumpyArray = np.where(hits.any(-1), known, np.where(is_tied, last, np.nan))
    return result


def _distinct(given: NumpyArray) -> NumpyArray:
    """False for a class that stood at an earlier place already."""
    earlier: Any = np.tril(np.ones((given.shape[-1],) * 2, bool), -1)
    repeated: NumpyArray = ((given[..., :, None] == given[..., None, :]) & earlier).any(-1)
    return ~repeated


def _worst(same: NumpyArray, wanted: NumpyArray, given: NumpyArray) -> str:
    if same.all():
        return ""
    place = tuple(int(i) for i in np.argwhere(~same)[0])
    shown = ", ".join(map(str, place))
    return f"at [{shown}]: expected class {wanted[place]}, found {given[place]}"
