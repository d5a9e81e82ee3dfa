"""``detections``: boxes with scores and labels, matched by their intersection over union."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from enginebay.authors import assign, touching
from enginebay.errors import UsageError
from enginebay.hooks import Aligned, ComparisonResult
from enginebay_vision.detections.boxes import Boxes, Layout, compute_overlaps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.authors import NumpyArray
    from enginebay.hooks import ComparisonRequest

#: The minimum intersection over union of the same object in PASCAL VOC and COCO.
_DEFAULT_OVERLAP = 0.5


class Detections:
    """Compares boxes as sets, with a maximum matching.

    Matched boxes have the same label, overlap, and have box and score within the tolerance. The
    other boxes are paired by overlap alone, to describe the differences.

    An unmatched box is excused only if its score is near the model's threshold. A correct engine,
    whose scores differ by at most the tolerance, can lose or gain a detection only if its score is
    within the tolerance of the threshold. The threshold is not known, but it is not above the
    lowest score in any sample. So a score within the tolerance of the lowest one is excused if a
    matched box has such a score too. An engine is expected to keep at least half of the detections
    so near to the threshold: no more boxes of a side are excused than are matched there.
    """

    def __init__(self, argument: str) -> None:
        self.least = _parse_overlap(argument) if argument else _DEFAULT_OVERLAP

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
                f"detections expects boxes as x1, y1, x2, y2, but in '{layout.names[0]}' x2 or y2 "
                f"is the smaller one in each row, as in {expected.show(0)}",
                hint="let the model turn centres and sizes into corners",
            )
        pairs = self._match_boxes(expected, found, noise)
        return _Matching(expected, found, pairs, noise).result()

    def _match_boxes(self, expected: Boxes, found: Boxes, noise: _Noise) -> _Pairs:
        """Match boxes within the tolerance first, and then by overlap."""
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
        """Yield pairs of the same image and label that overlap, or are within the tolerance."""
        for pairs in touching(*_box_intervals(expected, found, noise)):
            left, right = expected.boxes[pairs[:, 0]], found.boxes[pairs[:, 1]]
            shared = compute_overlaps(left, right)
            within = noise.within(expected, found, pairs)
            flat = ~(expected.has_area[pairs[:, 0]] | found.has_area[pairs[:, 1]])
            within &= (shared >= self.least) | flat
            kept = within | (shared >= self.least)
            kept &= (expected.kinds[pairs[:, 0]] == found.kinds[pairs[:, 1]]).all(-1)
            yield _Candidates(pairs[kept], shared[kept], within[kept])


def _box_intervals(expected: Boxes, found: Boxes, noise: _Noise) -> Iterator[NumpyArray]:
    """Return the horizontal interval of each box, widened by the tolerance.

    Each image and label is shifted to a separate range, so that only equal ones touch.
    """
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
    """Rows of the reference, their partners, whether within tolerance, and all possible pairs."""

    rows: NumpyArray
    partners: NumpyArray
    good: NumpyArray
    possible: NumpyArray


class _Candidates(NamedTuple):
    """Possible pairs, their overlaps, and whether they are within the tolerance."""

    pairs: NumpyArray
    shared: NumpyArray
    within: NumpyArray


class _Noise:
    """The tolerance of boxes and scores, scaled by all expected detections."""

    def __init__(self, request: ComparisonRequest, layout: Layout) -> None:
        self._request = request
        self.layout = layout
        real = layout.read(request.expected, padding=0.0)
        self.boxes_scale = real.boxes.reshape(-1)
        self.scores_scale = real.scores
        #: The largest score that can be a rounded 0.
        self.at_zero = -np.inf
        if self.scores_scale is not None:
            self.at_zero = float(self.scores(np.zeros(1))[0])

    def boxes(self, values: NumpyArray) -> NumpyArray:
        """Return the tolerance of coordinates."""
        flat = self._request.allowed(self.layout.names[0], values.reshape(-1), self.boxes_scale)
        return np.asarray(flat).reshape(values.shape)

    def scores(self, values: NumpyArray) -> NumpyArray:
        """Return the tolerance of scores."""
        assert self.layout.scores is not None
        return np.asarray(self._request.allowed(self.layout.scores, values, self.scores_scale))

    def least(self) -> float:
        """Return the lowest score of the reference in any sample: the threshold is not above it."""
        every = self._request.every or (self._request.expected,)
        boxes = [self.layout.read(outputs, padding=self.at_zero) for outputs in every]
        return min(float(one.scores.min(initial=np.inf)) for one in boxes if one.scores is not None)

    def within(self, expected: Boxes, found: Boxes, pairs: NumpyArray) -> NumpyArray:
        """Return, for each pair, whether box and score are both within the tolerance."""
        rows, others = pairs[:, 0], pairs[:, 1]
        allowed = self.boxes(expected.boxes)[rows]
        near: NumpyArray = (np.abs(expected.boxes[rows] - found.boxes[others]) <= allowed).all(-1)
        if expected.scores is not None and found.scores is not None:
            off = np.abs(expected.scores[rows] - found.scores[others])
            near &= off <= self.scores(expected.scores)[rows]
        return near


class _Matching:
    """Matched, excused and unmatched detections."""

    def __init__(self, expected: Boxes, found: Boxes, pairs: _Pairs, noise: _Noise) -> None:
        self.expected, self.found = expected, found
        self.rows, self.partners, self.good, possible = pairs
        self.noise, self.layout = noise, noise.layout
        self.excused = [
            self._find_excused(expected, self.rows, possible[:, 0]),
            self._find_excused(found, self.partners, possible[:, 1]),
        ]
        self.alone = [
            np.setdiff1d(np.arange(len(side)), [*paired, *excused])
            for side, paired, excused in zip(
                (expected, found), (self.rows, self.partners), self.excused, strict=True
            )
        ]

    def result(self) -> ComparisonResult:
        """Return the result of the comparison."""
        missing, extra = (side.size for side in self.alone)
        reason = ""
        if missing or extra:
            reason = f"{missing} expected and {extra} found have no partner"
        elif self.expected.odd != self.found.odd:
            odd = self.expected.odd, self.found.odd
            reason = f"{odd[0]} expected and {odd[1]} found are NaN or infinite"
        worst, badness = self._find_worst()
        return ComparisonResult(
            passed=not reason,
            matched=self.rows.size,
            expected_alone=missing,
            found_alone=extra,
            excused=sum(side.size for side in self.excused),
            reason=reason,
            worst=worst,
            badness=badness + 1e6 * (missing + extra),
            aligned=tuple(self._align_outputs()),
        )

    def _find_excused(self, side: Boxes, paired: NumpyArray, possible: NumpyArray) -> NumpyArray:
        """Return unmatched rows whose score is within the tolerance of the lowest matched score.

        Rows with a possible partner are not included: then this side has a duplicate, and the
        other side has not lost a detection.
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

    def _align_outputs(self) -> Iterator[Aligned]:
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

    def _find_worst(self) -> tuple[str, float]:
        """Describe the worst unmatched box, or else the worst pair, with its error."""
        for side, alone, name in (
            (self.expected, self.alone[0], "expected"),
            (self.found, self.alone[1], "found"),
        ):
            if alone.size:
                scores = side.scores
                row = int(alone[0 if scores is None else scores[alone].argmax()])
                return f"{name} {side.show(row)}{self._describe_nearest(side, row)}", 0.0
        if not self.rows.size:
            return "", 0.0
        left, right = self.expected.boxes[self.rows], self.found.boxes[self.partners]
        off = np.abs(left - right) / np.maximum(self.noise.boxes(left), np.finfo(float).tiny)
        needed = off.max(-1)
        at = int(needed.argmax())
        row, other = int(self.rows[at]), int(self.partners[at])
        shared = compute_overlaps(left[at : at + 1], right[at : at + 1])[0]
        text = (
            f"expected {self.expected.show(row)}, found {self.found.show(other)}; "
            f"overlap {shared:.3f}"
        )
        return text, float(needed[at])

    def _describe_nearest(self, side: Boxes, row: int) -> str:
        """Describe the box of the other side that overlaps most, with any label."""
        other = self.found if side is self.expected else self.expected
        if not len(other):
            return " has no partner"
        shared = compute_overlaps(side.boxes[row : row + 1], other.boxes)
        shared[(other.places[:, :-1] != side.places[row, :-1]).any(-1)] = 0
        at = int(shared.argmax())
        if not shared[at]:
            return " has no partner, and nothing overlaps it"
        return f" has no partner; nearest is {other.show(at)}, overlap {shared[at]:.3f}"


def _at_columns(places: NumpyArray, columns: Sequence[int]) -> NumpyArray:
    """Return the index of each of the columns in each row."""
    repeated = np.repeat(places, len(columns), axis=0)
    return np.column_stack([repeated, np.tile(list(columns), len(places))]).astype(np.int64)


def _parse_overlap(argument: str) -> float:
    """Parse the comparator's argument: the minimum intersection over union."""
    try:
        value = float(argument)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:  # NaN is not
        raise UsageError(
            f"'{argument}' in detections:{argument} is not an intersection over union; expected "
            "a number above 0 and up to 1"
        )
    return value
