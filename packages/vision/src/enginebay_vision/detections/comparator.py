"""``detections``: boxes with scores and labels, matched by their intersection over union."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from enginebay.authors import assign, touching
from enginebay.errors import UsageError
from enginebay.hooks import Aligned, ComparisonResult
from enginebay_vision.detections.boxes import Boxes, Layout, overlaps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.authors import NumpyArray
    from enginebay.hooks import ComparisonRequest

#: Half of both boxes together: what PASCAL and COCO count as the same object.
_DEFAULT = 0.5


class Detections:
    """Compares boxes as sets.

    Partners have the same label, overlap, and have box and score within the tolerance; of those
    there are as many as can be. What is left is paired by overlap alone, to say what is wrong.

    One without a partner is excused only where the model's threshold is known to be that near. A
    right engine, whose scores are off by the tolerance at most, can lose or gain a detection only
    if its score is within the tolerance of the threshold. That is not known, but no higher than
    the least score in any sample; so a score within the tolerance of that one is excused, where
    another with a partner has such a score as well. Of detections so near to the threshold an
    engine keeps at least every other one: no more of a side are excused than have partners there.
    """

    def __init__(self, argument: str) -> None:
        self.least = _least_overlap(argument) if argument else _DEFAULT

    def __call__(self, request: ComparisonRequest) -> ComparisonResult:
        """Compare one sample."""
        layout = Layout.of(request.expected)
        if reason := layout.difference(request.expected, request.found):
            return ComparisonResult(passed=False, matched=0, reason=reason)
        layout.check(request.expected)
        noise = _Noise(request, layout)
        expected = layout.read(request.expected, padding=noise.at_zero)
        found = layout.read(request.found, padding=noise.at_zero)
        if len(expected) and (expected.boxes[:, 2:] < expected.boxes[:, :2]).any(-1).all():
            raise UsageError(
                f"detections wants boxes as x1, y1, x2, y2, and in '{layout.names[0]}' x2 or y2 is "
                f"the smaller one in each row, as in {expected.show(0)}",
                hint="let the model turn centres and sizes into corners",
            )
        pairs = self._pairs(expected, found, noise)
        return _Matching(expected, found, pairs, noise).result()

    def _pairs(self, expected: Boxes, found: Boxes, noise: _Noise) -> _Pairs:
        """Partners within tolerance, and then by overlap."""
        candidates = list(self._candidates(expected, found, noise))
        rows = np.concatenate([np.zeros((0, 2), np.int64), *(c.pairs for c in candidates)])
        shared = np.concatenate([np.zeros(0), *(c.shared for c in candidates)])
        within = np.concatenate([np.zeros(0, bool), *(c.within for c in candidates)])
        good = assign(rows[within], shared[within], len(expected), len(found))
        free = (good[rows[:, 0]] < 0) & ~np.isin(rows[:, 1], good[good >= 0])
        free &= shared >= self.least
        rest = assign(rows[free], shared[free], len(expected), len(found))
        partner = np.where(good >= 0, good, rest)
        kept = np.flatnonzero(partner >= 0)
        return _Pairs(kept, partner[kept], good[kept] >= 0, rows[within])

    def _candidates(self, expected: Boxes, found: Boxes, noise: _Noise) -> Iterator[_Candidates]:
        """Pairs of the same picture and label that overlap, or are within tolerance."""
        for pairs in touching(*_intervals(expected, found, noise)):
            left, right = expected.boxes[pairs[:, 0]], found.boxes[pairs[:, 1]]
            shared = overlaps(left, right)
            within = noise.within(expected, found, pairs)
            flat = ~(expected.has_area[pairs[:, 0]] | found.has_area[pairs[:, 1]])
            within &= (shared >= self.least) | flat
            kept = within | (shared >= self.least)
            kept &= (expected.kinds[pairs[:, 0]] == found.kinds[pairs[:, 1]]).all(-1)
            yield _Candidates(pairs[kept], shared[kept], within[kept])


def _intervals(expected: Boxes, found: Boxes, noise: _Noise) -> Iterator[NumpyArray]:
    """From the left to the right of each box, up to the tolerance; each kind on its own stretch."""
    boxes = np.concatenate([expected.boxes, found.boxes])
    if not len(boxes):
        yield from np.zeros((4, 0))
        return
    _, kinds = np.unique(np.concatenate([expected.kinds, found.kinds]), axis=0, return_inverse=True)
    more = float(noise.boxes(boxes).max())
    low, high = boxes[:, [0, 2]].min(1) - more, boxes[:, [0, 2]].max(1) + more
    stretch = kinds.reshape(-1) * (high.max() - low.min() + 1)
    for side in (slice(0, len(expected)), slice(len(expected), None)):
        yield (low + stretch)[side]
        yield (high + stretch)[side]


class _Pairs(NamedTuple):
    """Rows of the reference and their partners; which are within tolerance; all that could be."""

    rows: NumpyArray
    partners: NumpyArray
    good: NumpyArray
    possible: NumpyArray


class _Candidates(NamedTuple):
    """Possible pairs, how much they overlap, and which of them are within tolerance."""

    pairs: NumpyArray
    shared: NumpyArray
    within: NumpyArray


class _Noise:
    """The tolerance of boxes and scores; their magnitude is that of all detections expected."""

    def __init__(self, request: ComparisonRequest, layout: Layout) -> None:
        self._request = request
        self.layout = layout
        real = layout.read(request.expected, padding=0.0)
        self.boxes_scale = real.boxes.reshape(-1)
        self.scores_scale = real.scores
        #: A score that is no more than rounding of 0.
        self.at_zero = -np.inf
        if self.scores_scale is not None:
            self.at_zero = float(self.scores(np.zeros(1))[0])

    def boxes(self, values: NumpyArray) -> NumpyArray:
        """How far coordinates may be off."""
        flat = self._request.allowed(self.layout.names[0], values.reshape(-1), self.boxes_scale)
        return np.asarray(flat).reshape(values.shape)

    def scores(self, values: NumpyArray) -> NumpyArray:
        """How far scores may be off."""
        assert self.layout.scores is not None
        return np.asarray(self._request.allowed(self.layout.scores, values, self.scores_scale))

    def least(self) -> float:
        """The least score of the reference in any sample: the threshold is no higher."""
        every = self._request.every or (self._request.expected,)
        boxes = [self.layout.read(outputs, padding=self.at_zero) for outputs in every]
        return min(float(one.scores.min(initial=np.inf)) for one in boxes if one.scores is not None)

    def within(self, expected: Boxes, found: Boxes, pairs: NumpyArray) -> NumpyArray:
        """True where box and score of a pair are both within tolerance."""
        rows, others = pairs[:, 0], pairs[:, 1]
        allowed = self.boxes(expected.boxes)[rows]
        near: NumpyArray = (np.abs(expected.boxes[rows] - found.boxes[others]) <= allowed).all(-1)
        if expected.scores is not None and found.scores is not None:
            off = np.abs(expected.scores[rows] - found.scores[others])
            near &= off <= self.scores(expected.scores)[rows]
        return near


class _Matching:
    """Detections with their partners, and the rest."""

    def __init__(self, expected: Boxes, found: Boxes, pairs: _Pairs, noise: _Noise) -> None:
        self.expected, self.found = expected, found
        self.rows, self.partners, self.good, possible = pairs
        self.noise, self.layout = noise, noise.layout
        self.excused = [
            self._excused(expected, self.rows, possible[:, 0]),
            self._excused(found, self.partners, possible[:, 1]),
        ]
        self.alone = [
            np.setdiff1d(np.arange(len(side)), [*paired, *excused])
            for side, paired, excused in zip(
                (expected, found), (self.rows, self.partners), self.excused, strict=True
            )
        ]

    def result(self) -> ComparisonResult:
        """All of it as a comparator's result."""
        missing, extra = (side.size for side in self.alone)
        reason = ""
        if missing or extra:
            reason = f"{missing} expected and {extra} found have no partner"
        elif self.expected.odd != self.found.odd:
            odd = self.expected.odd, self.found.odd
            reason = f"{odd[0]} expected and {odd[1]} found are NaN or infinite"
        worst, badness = self._worst()
        return ComparisonResult(
            passed=not reason,
            matched=self.rows.size,
            expected_alone=missing,
            found_alone=extra,
            excused=sum(side.size for side in self.excused),
            reason=reason,
            worst=worst,
            badness=badness + 1e6 * (missing + extra),
            aligned=tuple(self._aligned()),
        )

    def _excused(self, side: Boxes, paired: NumpyArray, possible: NumpyArray) -> NumpyArray:
        """Rows without a partner whose score is within tolerance of the least of partners.

        Not those that could have had one: the other side has not lost it, but this one has two.
        """
        none = np.zeros(0, np.int64)
        if side.scores is None or self.expected.scores is None or not self.good.any():
            return none
        kept = self.expected.scores[self.rows[self.good]]
        least = kept.min()
        allowed = self.noise.scores(np.array([least]))[0]
        alone = np.setdiff1d(np.arange(len(side)), [*paired, *possible])
        near = alone[np.abs(side.scores[alone] - least) <= allowed]
        if near.size > np.count_nonzero(kept <= least + allowed):
            return none
        return near if near.size and least - allowed <= self.noise.least() else none

    def _aligned(self) -> Iterator[Aligned]:
        expected, found = self.expected, self.found
        rows, partners = self.rows, self.partners
        first = self.layout.names[0]
        places = expected.places[rows]
        in_rows = self.layout.scores == first
        yield Aligned(
            output=first,
            expected=expected.boxes[rows].reshape(-1),
            found=found.boxes[partners].reshape(-1),
            places=_at_columns(places, range(4)),
            scale=self.noise.boxes_scale,
            part="boxes" if in_rows else "",
        )
        if expected.others.shape[1]:
            columns = range(6, 6 + expected.others.shape[1])
            yield Aligned(
                output=first,
                expected=expected.others[rows].reshape(-1),
                found=found.others[partners].reshape(-1),
                places=_at_columns(places, columns),
                scale=expected.others.reshape(-1),
                part="other columns",
            )
        if self.layout.scores is None or expected.scores is None or found.scores is None:
            return
        part = "scores" if in_rows else ""
        yield Aligned(
            output=self.layout.scores,
            expected=expected.scores[rows],
            found=found.scores[partners],
            places=_at_columns(places, [4]) if in_rows else places,
            scale=self.noise.scores_scale,
            part=part,
        )
        missing = expected.scores[np.concatenate([self.alone[0], self.excused[0]])]
        extra = found.scores[np.concatenate([self.alone[1], self.excused[1]])]
        yield Aligned(
            output=self.layout.scores,
            expected=np.concatenate([missing, np.zeros(extra.size)]),
            found=np.concatenate([np.zeros(missing.size), extra]),
            part=part,
            noise_only=True,
        )

    def _worst(self) -> tuple[str, float]:
        """The worst of those without a partner, else the worst pair; and how bad that is."""
        for side, alone, name in (
            (self.expected, self.alone[0], "expected"),
            (self.found, self.alone[1], "found"),
        ):
            if alone.size:
                scores = side.scores
                row = int(alone[0 if scores is None else scores[alone].argmax()])
                return f"{name} {side.show(row)}{self._nearest(side, row)}", 0.0
        if not self.rows.size:
            return "", 0.0
        left, right = self.expected.boxes[self.rows], self.found.boxes[self.partners]
        off = np.abs(left - right) / np.maximum(self.noise.boxes(left), np.finfo(float).tiny)
        needed = off.max(-1)
        at = int(needed.argmax())
        row, other = int(self.rows[at]), int(self.partners[at])
        shared = overlaps(left[at : at + 1], right[at : at + 1])[0]
        text = (
            f"expected {self.expected.show(row)}, found {self.found.show(other)}; "
            f"overlap {shared:.3f}"
        )
        return text, float(needed[at])

    def _nearest(self, side: Boxes, row: int) -> str:
        """Of the other side, what overlaps most, with whatever label."""
        other = self.found if side is self.expected else self.expected
        if not len(other):
            return " has no partner"
        shared = overlaps(side.boxes[row : row + 1], other.boxes)
        shared[(other.places[:, :-1] != side.places[row, :-1]).any(-1)] = 0
        at = int(shared.argmax())
        if not shared[at]:
            return " has no partner, and nothing overlaps it"
        return f" has no partner; nearest is {other.show(at)}, overlap {shared[at]:.3f}"


def _at_columns(places: NumpyArray, columns: Sequence[int]) -> NumpyArray:
    """The index of each of these columns of each row."""
    repeated = np.repeat(places, len(columns), axis=0)
    return np.column_stack([repeated, np.tile(list(columns), len(places))]).astype(np.int64)


def _least_overlap(argument: str) -> float:
    """The comparator's argument: the intersection over union that boxes must have."""
    try:
        value = float(argument)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:  # NaN is not
        raise UsageError(
            f"'{argument}' in detections:{argument} is no intersection over union: wanted a number "
            "above 0 and up to 1"
        )
    return value
