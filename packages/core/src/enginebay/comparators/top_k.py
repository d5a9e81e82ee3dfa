"""The comparator ``top-k``, which compares the K best classes, their order and their scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from enginebay.comparators.argument_parsing import parse_positive_number
from enginebay.errors import UsageError
from enginebay.verdict import Aligned, ComparisonResult

if TYPE_CHECKING:
    from enginebay.tensors import NumpyArray
    from enginebay.verdict import Allowed, ComparisonRequest

#: ImageNet's top-5 accuracy.
_DEFAULT_K = 5


class TopK:
    """Compares the best classes and their scores, and ignores all other classes.

    A single output contains the scores of all classes along the last axis, or the indices of the
    best classes. Two outputs contain the best scores and the indices of their classes, as
    ``torch.topk`` returns them.

    Each score may be wrong by the tolerance. So an engine may have a different class at a rank if
    the reference's scores of the two classes differ by at most twice the tolerance. The sorted
    scores themselves must be within the tolerance.
    """

    def __init__(self, argument: str) -> None:
        self.k = parse_positive_number("top-k", argument) if argument else _DEFAULT_K

    def __call__(self, request: ComparisonRequest) -> ComparisonResult:
        """Compare the outputs of one sample, and return the result."""
        expected, found = list(request.expected.items()), list(request.found.items())
        self._check_outputs(expected)
        for (name, left), (_, right) in zip(expected, found, strict=True):
            if left.shape != right.shape:
                reason = (
                    f"the shape of '{name}' differs: expected {left.shape}, found {right.shape}"
                )
                return ComparisonResult(passed=False, matched=0, reason=reason)
        reference, engine = _Ranking.from_outputs(expected), _Ranking.from_outputs(found)
        best, found_best = reference.classes[..., : self.k], engine.classes[..., : self.k]
        same = best == found_best
        aligned: tuple[Aligned, ...] = ()
        if reference.scores is not None and engine.scores is not None:
            name = expected[0][0]
            same |= self._find_ties(request.allowed, name, reference, found_best)
            # NaN scores are sorted to the end, so that the best classes would not show them.
            is_nan, found_nan = np.isnan(reference.scores), np.isnan(engine.scores)
            same &= (is_nan == found_nan).all(-1, keepdims=True)
            aligned = (self._align_scores(name, reference, engine, is_sorted=len(expected) == 2),)
        # An engine that repeats the best class would otherwise pass where scores are tied.
        same &= _mark_first(best) == _mark_first(found_best)
        wrong = int(np.count_nonzero(~same))
        return ComparisonResult(
            passed=not wrong,
            matched=same.size - wrong,
            expected_alone=wrong,
            reason=f"{wrong} of {same.size} ranks have a different class" if wrong else "",
            worst=_describe_worst(same, best, found_best),
            badness=wrong,
            aligned=aligned,
        )

    def _find_ties(
        self, allowed: Allowed, name: str, reference: _Ranking, found_best: NumpyArray
    ) -> NumpyArray:
        """Return a mask of the ranks at which the reference's and the engine's class are tied."""
        assert reference.scores is not None
        at_rank = reference.scores[..., : self.k]
        with np.errstate(invalid="ignore"):
            reach = 2 * allowed(name, reference.scores, reference.scores.reshape(-1))
            error = np.abs(_look_up_scores(found_best, reference, reach) - at_rank)
            tied: NumpyArray = error <= reach[..., : self.k]
        return tied

    def _align_scores(
        self, name: str, reference: _Ranking, engine: _Ranking, *, is_sorted: bool
    ) -> Aligned:
        """Pair the K best scores of the reference with those of the engine, by rank."""
        assert reference.scores is not None
        assert engine.scores is not None
        indices = np.indices(reference.classes.shape).reshape(reference.classes.ndim, -1).T
        if not is_sorted:
            indices[:, -1] = reference.classes.reshape(-1)
        is_best = np.zeros(reference.classes.shape, bool)
        is_best[..., : self.k] = True
        return Aligned(
            output=name,
            expected=reference.scores[is_best],
            found=engine.scores[is_best],
            places=indices[is_best.reshape(-1)],
            scale=reference.scores,
        )

    def _check_outputs(self, outputs: list[tuple[str, NumpyArray]]) -> None:
        name, values = outputs[0]
        if len(outputs) > 2 or values.ndim == 0 or values.dtype.kind not in "iuf":
            found = ", ".join(f"'{n}' {array.dtype} {array.shape}" for n, array in outputs)
            raise UsageError(
                "comparator 'top-k' expects scores or class indices along the last axis of one "
                f"output, or the two outputs of torch.topk; found {found}"
            )
        if values.shape[-1] < self.k:
            raise UsageError(
                f"comparator 'top-k:{self.k}' expects at least {self.k} classes, but '{name}' has "
                f"{values.shape[-1]}",
                hint=f"--compare {name}=top-k:{values.shape[-1] or 1}",
            )
        if len(outputs) == 2:
            other, classes = outputs[1]
            if classes.shape != values.shape or classes.dtype.kind not in "iu":
                raise UsageError(
                    f"comparator 'top-k' expects that '{other}' contains the class indices of "
                    f"'{name}', integers of shape {values.shape}; found {classes.dtype} "
                    f"{classes.shape}"
                )


class _Ranking(NamedTuple):
    """Class indices in descending order of their scores; ``scores`` is None if unknown."""

    classes: NumpyArray
    scores: NumpyArray | None

    @classmethod
    def from_outputs(cls, outputs: list[tuple[str, NumpyArray]]) -> _Ranking:
        values = outputs[0][1]
        if len(outputs) == 2:
            return cls(outputs[1][1], values)
        if values.dtype.kind in "iu":
            return cls(values, None)
        # Stable: equal scores have the same order in the reference and in the engine's output.
        order = np.argsort(-values, axis=-1, kind="stable")
        return cls(order, np.take_along_axis(values, order, -1))


def _look_up_scores(found_best: NumpyArray, reference: _Ranking, reach: NumpyArray) -> NumpyArray:
    """Return the reference's score of each class in ``found_best``; NaN if unknown.

    A class that the reference does not contain gets the reference's last score if the last two
    scores differ by at most ``reach``.
    """
    classes, scores = reference
    assert scores is not None
    hits = found_best[..., :, None] == classes[..., None, :]
    known = np.take_along_axis(scores, hits.argmax(-1), -1)
    last = scores[..., -1:]
    # torch.topk returns the best classes only. If its last two are tied, the tie may continue
    # beyond them: a class that is not among them then gets the last score.
    is_tied = scores[..., -2:-1] - last <= reach[..., -1:] if scores.shape[-1] > 1 else False
    result: NumpyArray = np.where(hits.any(-1), known, np.where(is_tied, last, np.nan))
    return result


def _mark_first(classes: NumpyArray) -> NumpyArray:
    """Return a mask: True at the first rank of each class, False where a class is repeated."""
    earlier: Any = np.tril(np.ones((classes.shape[-1],) * 2, bool), -1)
    repeated: NumpyArray = ((classes[..., :, None] == classes[..., None, :]) & earlier).any(-1)
    return ~repeated


def _describe_worst(same: NumpyArray, best: NumpyArray, found_best: NumpyArray) -> str:
    if same.all():
        return ""
    index = tuple(int(i) for i in np.argwhere(~same)[0])
    shown = ", ".join(map(str, index))
    return f"at [{shown}]: expected class {best[index]}, found {found_best[index]}"
