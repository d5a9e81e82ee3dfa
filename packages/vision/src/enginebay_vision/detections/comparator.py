"""The comparator ``detections``: matches boxes by label, overlap, score and, if any, masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from enginebay.authors.arrays import assign, touching
from enginebay.errors import UsageError
from enginebay.hooks import Aligned, ComparisonResult
from enginebay_vision.detections.boxes import Boxes, Layout, compute_overlaps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.authors.arrays import NumpyArray
    from enginebay.hooks import ComparisonRequest

#: The minimum intersection over union of the same object in PASCAL VOC and COCO.
_DEFAULT_OVERLAP = 0.5
#: The share of the masks' pixels that rounding may decide, as in the comparator ``class-map``.
_DIFFERING_PIXELS = 0.001


class Detections:
    """Compares detected boxes as sets, by a maximum matching of expected and found boxes.

    A match is a pair of overlapping boxes with the same label, whose coordinates and scores differ
    by at most the tolerance. The other boxes are paired by label and overlap only, to describe the
    differences.

    An unmatched box is excused (is no mismatch) if its score is near the model's score threshold,
    since a rounding error may move the score across the threshold. The threshold is not known; the
    lowest matched score is its estimate. A score is near if it differs from the estimate by at most
    the tolerance.
    A box with a near score is nevertheless not excused in three cases:

    - The box is within the tolerance of a box that has another match. Then it is a duplicate.
    - A sample has a score below the range of near scores. Then the threshold is lower as well.
    - More unmatched than matched boxes have near scores, whereas a correct engine finds at least
      half of the boxes near the threshold. Expected and found boxes are counted separately.

    Masks of numbers must agree within the tolerance. Of masks of bools or integers, where rounding
    decides at the border, each must overlap its partner like a box, and in one sample at most
    0.001 of the pixels that a mask covers may differ.

    Args:
        argument: The minimum intersection over union of a pair, as text; empty for 0.5.
    """

    def __init__(self, argument: str) -> None:
        self.min_overlap = _parse_overlap(argument) if argument else _DEFAULT_OVERLAP

    def __call__(self, request: ComparisonRequest) -> ComparisonResult:
        """Return how the found detections of one sample match the expected detections."""
        layout = Layout.from_outputs(request.expected)
        if reason := layout.describe_difference(request.expected, request.found):
            return ComparisonResult(passed=False, matched=0, reason=reason)
        layout.check_scores(request.expected)
        tolerance = _Tolerance(request, layout, self.min_overlap)
        expected = layout.read_boxes(request.expected, padding_score=tolerance.padding_score)
        found = layout.read_boxes(request.found, padding_score=tolerance.padding_score)
        if len(expected) and (expected.boxes[:, 2:] < expected.boxes[:, :2]).any(-1).all():
            raise UsageError(
                "the comparator 'detections' expects boxes as x1, y1, x2, y2; each row of "
                f"'{layout.names[0]}' has x2 < x1 or y2 < y1, as in {expected.describe_row(0)}",
                hint="convert the boxes from cxcywh or xywh to xyxy in the model",
            )
        pairs = self._match_boxes(expected, found, tolerance)
        return _Matching(expected, found, pairs, tolerance).make_result()

    def _match_boxes(self, expected: Boxes, found: Boxes, tolerance: _Tolerance) -> _Pairs:
        """Pair boxes within the tolerance, then the other boxes by overlap; return all pairs."""
        candidates = list(self._find_candidates(expected, found, tolerance))
        rows = np.concatenate([np.zeros((0, 2), np.int64), *(c.rows for c in candidates)])
        overlaps = np.concatenate([np.zeros(0), *(c.overlaps for c in candidates)])
        within = np.concatenate([np.zeros(0, bool), *(c.within for c in candidates)])
        matches = assign(rows[within], overlaps[within], len(expected), len(found))
        free = (matches[rows[:, 0]] < 0) & ~np.isin(rows[:, 1], matches[matches >= 0])
        free &= overlaps >= self.min_overlap
        rest = assign(rows[free], overlaps[free], len(expected), len(found))
        partners = np.where(matches >= 0, matches, rest)
        paired = np.flatnonzero(partners >= 0)
        return _Pairs(paired, partners[paired], matches[paired] >= 0, rows[within])

    def _find_candidates(
        self, expected: Boxes, found: Boxes, tolerance: _Tolerance
    ) -> Iterator[_Candidates]:
        """Yield pairs of boxes with the same image and label that overlap or are nearly equal."""
        for rows in touching(*_box_intervals(expected, found, tolerance)):
            left, right = expected.boxes[rows[:, 0]], found.boxes[rows[:, 1]]
            overlaps = compute_overlaps(left, right)
            within = tolerance.is_within(expected, found, rows)
            # Boxes without an area have no overlap: the tolerance alone decides.
            flat = ~(expected.has_area[rows[:, 0]] | found.has_area[rows[:, 1]])
            within &= (overlaps >= self.min_overlap) | flat
            selected = within | (overlaps >= self.min_overlap)
            selected &= (expected.groups[rows[:, 0]] == found.groups[rows[:, 1]]).all(-1)
            yield _Candidates(rows[selected], overlaps[selected], within[selected])


def _box_intervals(expected: Boxes, found: Boxes, tolerance: _Tolerance) -> Iterator[NumpyArray]:
    """Yield four arrays of x coordinates: left and right edges of expected, then of found boxes.

    The interval from the left to the right edge is widened by the tolerance at both ends. Boxes of
    different images or labels are shifted so far apart that their intervals never touch.
    """
    boxes = np.concatenate([expected.boxes, found.boxes])
    if not len(boxes):
        yield from np.zeros((4, 0))
        return
    groups = np.concatenate([expected.groups, found.groups])
    _, numbers = np.unique(groups, axis=0, return_inverse=True)
    margin = float(tolerance.of_boxes(boxes).max())
    low, high = boxes[:, [0, 2]].min(1) - margin, boxes[:, [0, 2]].max(1) + margin
    # Each image and label gets a separate range of the axis, in which no other box can touch.
    shift = numbers.reshape(-1) * (high.max() - low.min() + 1)
    for rows in (slice(0, len(expected)), slice(len(expected), None)):
        yield (low + shift)[rows]
        yield (high + shift)[rows]


class _Pairs(NamedTuple):
    rows: NumpyArray  # of expected boxes with a partner
    partners: NumpyArray  # the row of the found box for each expected box
    within: NumpyArray  # whether the pair is within the tolerance
    possible: NumpyArray  # [N, 2]: all pairs of rows within the tolerance


class _Candidates(NamedTuple):
    rows: NumpyArray  # [N, 2]: the row of the expected box, and of the found box
    overlaps: NumpyArray
    within: NumpyArray  # whether the pair is within the tolerance


class _Tolerance:
    """Computes the allowed differences of box coordinates and scores."""

    def __init__(self, request: ComparisonRequest, layout: Layout, min_overlap: float) -> None:
        self._request = request
        self.layout = layout
        self._min_overlap = min_overlap
        real = layout.read_boxes(request.expected, padding_score=0.0)
        self.boxes_scale = real.boxes.reshape(-1)
        self.scores_scale = real.scores
        #: The largest score that may be a score of 0 with a rounding error, as padding has it.
        self.padding_score = -np.inf
        if self.scores_scale is not None:
            self.padding_score = float(self.of_scores(np.zeros(1))[0])

    def of_boxes(self, values: NumpyArray) -> NumpyArray:
        """Return the allowed difference of each coordinate."""
        flat = self._request.allowed(self.layout.names[0], values.reshape(-1), self.boxes_scale)
        return np.asarray(flat).reshape(values.shape)

    def of_scores(self, values: NumpyArray) -> NumpyArray:
        """Return the allowed difference of each score."""
        assert self.layout.scores is not None
        return np.asarray(self._request.allowed(self.layout.scores, values, self.scores_scale))

    def lowest_score(self) -> float:
        """Return the lowest expected score in any sample, an upper bound of the threshold."""
        samples = self._request.every or (self._request.expected,)
        boxes = [self.layout.read_boxes(s, padding_score=self.padding_score) for s in samples]
        return min(float(b.scores.min(initial=np.inf)) for b in boxes if b.scores is not None)

    def is_within(self, expected: Boxes, found: Boxes, rows: NumpyArray) -> NumpyArray:
        """Return for each pair of rows whether boxes and scores agree within the tolerance."""
        left, right = rows[:, 0], rows[:, 1]
        allowed = self.of_boxes(expected.boxes)[left]
        within: NumpyArray = (np.abs(expected.boxes[left] - found.boxes[right]) <= allowed).all(-1)
        if expected.scores is not None and found.scores is not None:
            errors = np.abs(expected.scores[left] - found.scores[right])
            within &= errors <= self.of_scores(expected.scores)[left]
        if self.layout.masks is not None:
            for pair in np.flatnonzero(within):
                masks = expected.read_mask(left[pair]), found.read_mask(right[pair])
                within[pair] = self._agree(*masks)
        return within

    def do_overlap(self, differing: int, covered: int) -> bool:
        """Return whether two masks overlap like a pair of boxes: two empty masks do."""
        return covered - differing >= self._min_overlap * covered

    def _agree(self, expected: NumpyArray, found: NumpyArray) -> bool:
        assert self.layout.masks is not None
        if expected.dtype.kind == "f":
            scale = self._request.expected[self.layout.masks].reshape(-1)
            allowed = self._request.allowed(self.layout.masks, expected.reshape(-1), scale)
            return bool((np.abs(expected - found).reshape(-1) <= allowed).all())
        return self.do_overlap(*_count_pixels(expected, found))


class _Matching:
    """Divides detections into pairs, excused (score near the threshold) and unmatched ones."""

    def __init__(self, expected: Boxes, found: Boxes, pairs: _Pairs, tolerance: _Tolerance) -> None:
        self.expected, self.found = expected, found
        self.rows, self.partners, self.within, possible = pairs
        self.tolerance, self.layout = tolerance, tolerance.layout
        # Both lists: the rows of the expected boxes, and the rows of the found boxes.
        self.excused = [
            self._find_excused(expected, self.rows, possible[:, 0]),
            self._find_excused(found, self.partners, possible[:, 1]),
        ]
        self.alone = [
            np.setdiff1d(np.arange(len(boxes)), [*paired, *excused])
            for boxes, paired, excused in zip(
                (expected, found), (self.rows, self.partners), self.excused, strict=True
            )
        ]

    def make_result(self) -> ComparisonResult:
        missing, extra = (rows.size for rows in self.alone)
        reason = ""
        if missing or extra:
            reason = f"{missing} expected and {extra} found boxes have no match"
        elif self.expected.invalid != self.found.invalid:
            invalid = self.expected.invalid, self.found.invalid
            reason = f"{invalid[0]} expected and {invalid[1]} found boxes are NaN or infinite"
        else:
            reason = self._compare_pixels()
        worst, badness = self._find_worst()
        return ComparisonResult(
            passed=not reason,
            matched=self.rows.size,
            expected_alone=missing,
            found_alone=extra,
            excused=sum(rows.size for rows in self.excused),
            reason=reason,
            worst=worst,
            # A box without a partner is worse than any difference of a pair.
            badness=badness + 1e6 * (missing + extra),
            aligned=tuple(self._align_outputs()),
        )

    def _compare_pixels(self) -> str:
        """Return why the masks of bools or integers differ; empty if they agree."""
        name, masks = self.layout.masks, self.expected.masks
        if masks is None or masks.dtype.kind == "f":  # compared as aligned values
            return ""
        pairs = zip(self.rows, self.partners, strict=True)
        counts = [
            _count_pixels(self.expected.read_mask(row), self.found.read_mask(partner))
            for row, partner in pairs
        ]
        if apart := sum(not self.tolerance.do_overlap(*pair) for pair in counts):
            return f"{apart} of {len(counts)} pairs of masks in '{name}' do not overlap enough"
        differing, covered = (sum(numbers) for numbers in zip((0, 0), *counts, strict=True))
        if differing <= _DIFFERING_PIXELS * covered:
            return ""
        return f"{differing} of the {covered} pixels that masks in '{name}' cover differ"

    def _find_excused(self, boxes: Boxes, paired: NumpyArray, possible: NumpyArray) -> NumpyArray:
        """Return the rows of excused boxes: unmatched boxes with a score near the threshold.

        Args:
            boxes: The expected boxes, or the found boxes.
            paired: The row numbers of boxes that have been paired.
            possible: The row numbers of boxes for which a box within the tolerance exists, even if
                that box is paired with another one.
        """
        none = np.zeros(0, np.int64)
        if boxes.scores is None or self.expected.scores is None or not self.within.any():
            return none
        matched = self.expected.scores[self.rows[self.within]]
        lowest = matched.min()
        allowed = self.tolerance.of_scores(np.array([lowest]))[0]
        # An unmatched row with a possible partner is a duplicate, not a lost detection.
        alone = np.setdiff1d(np.arange(len(boxes)), [*paired, *possible])
        near = alone[np.abs(boxes.scores[alone] - lowest) <= allowed]
        if near.size > np.count_nonzero(matched <= lowest + allowed):
            return none
        # Another sample may show that the threshold is lower than this sample's scores.
        return near if near.size and lowest - allowed <= self.tolerance.lowest_score() else none

    def _align_outputs(self) -> Iterator[Aligned]:
        expected, found = self.expected, self.found
        rows, partners = self.rows, self.partners
        first = self.layout.names[0]
        indices = expected.indices[rows]
        has_score_column = self.layout.scores == first
        yield Aligned(
            output=first,
            expected=expected.boxes[rows].reshape(-1),
            found=found.boxes[partners].reshape(-1),
            places=_add_column_indices(indices, range(4)),
            scale=self.tolerance.boxes_scale,
            part="boxes" if has_score_column else "",
        )
        if expected.others.shape[1]:
            columns = range(6, 6 + expected.others.shape[1])
            yield Aligned(
                output=first,
                expected=expected.others[rows].reshape(-1),
                found=found.others[partners].reshape(-1),
                places=_add_column_indices(indices, columns),
                scale=expected.others.reshape(-1),
                part="other columns",
            )
        masks = expected.masks
        if self.layout.masks is not None and masks is not None and masks.dtype.kind == "f":
            yield Aligned(
                output=self.layout.masks,
                expected=_stack_masks(expected, rows),
                found=_stack_masks(found, partners),
                places=indices,
                scale=masks.reshape(-1),
            )
        if self.layout.scores is None or expected.scores is None or found.scores is None:
            return
        part = "scores" if has_score_column else ""
        yield Aligned(
            output=self.layout.scores,
            expected=expected.scores[rows],
            found=found.scores[partners],
            places=_add_column_indices(indices, [4]) if has_score_column else indices,
            scale=self.tolerance.scores_scale,
            part=part,
        )
        # A lost detection counts as noise in the scores: its partner has a score of 0.
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
        """Return a description of the worst difference, and the error of this difference.

        The worst difference is the unmatched expected box with the highest score. If there is none,
        it is the unmatched found box with the highest score, and otherwise the pair with the
        largest ratio of coordinate difference to tolerance. The error of a pair is this ratio; the
        error of an unmatched box is 0.
        """
        for boxes, alone, name in (
            (self.expected, self.alone[0], "expected"),
            (self.found, self.alone[1], "found"),
        ):
            if alone.size:
                row = int(alone[0 if boxes.scores is None else boxes.scores[alone].argmax()])
                return f"{name} {boxes.describe_row(row)}{self._describe_nearest(boxes, row)}", 0.0
        if not self.rows.size:
            return "", 0.0
        left, right = self.expected.boxes[self.rows], self.found.boxes[self.partners]
        # A tolerance may be 0.
        allowed = np.maximum(self.tolerance.of_boxes(left), np.finfo(float).tiny)
        errors = (np.abs(left - right) / allowed).max(-1)
        at = int(errors.argmax())
        row, other = int(self.rows[at]), int(self.partners[at])
        overlap = compute_overlaps(left[at : at + 1], right[at : at + 1])[0]
        text = (
            f"expected {self.expected.describe_row(row)}, found {self.found.describe_row(other)}; "
            f"overlap {overlap:.3f}"
        )
        return text, float(errors[at])

    def _describe_nearest(self, boxes: Boxes, row: int) -> str:
        """Describe which box of the other side overlaps the unmatched box ``boxes[row]`` most.

        The other side is the found boxes if ``boxes`` are the expected boxes, and vice versa.
        """
        others = self.found if boxes is self.expected else self.expected
        if not len(others):
            return " has no match"
        overlaps = compute_overlaps(boxes.boxes[row : row + 1], others.boxes)
        is_other_image = (others.indices[:, :-1] != boxes.indices[row, :-1]).any(-1)
        overlaps[is_other_image] = 0
        at = int(overlaps.argmax())
        if not overlaps[at]:
            return " has no match, and no box overlaps it"
        return f" has no match; nearest is {others.describe_row(at)}, overlap {overlaps[at]:.3f}"


def _count_pixels(expected: NumpyArray, found: NumpyArray) -> tuple[int, int]:
    """Return the number of pixels that differ, and of those that one of two masks covers."""
    differing, covered = expected != found, np.logical_or(expected, found)
    return int(np.count_nonzero(differing)), int(np.count_nonzero(covered))


def _stack_masks(boxes: Boxes, rows: NumpyArray) -> NumpyArray:
    assert boxes.masks is not None
    stacked: NumpyArray = boxes.masks[tuple(boxes.indices[rows].T)]
    return stacked


def _add_column_indices(indices: NumpyArray, columns: Sequence[int]) -> NumpyArray:
    """Combine each row of ``indices`` with each column; return the row with the column appended.

    ``[[0, 5]]`` and the columns 1 and 2 result in ``[[0, 5, 1], [0, 5, 2]]``.
    """
    repeated = np.repeat(indices, len(columns), axis=0)
    return np.column_stack([repeated, np.tile(list(columns), len(indices))]).astype(np.int64)


def _parse_overlap(argument: str) -> float:
    try:
        value = float(argument)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:  # NaN is not
        raise UsageError(
            f"invalid threshold in 'detections:{argument}'; expected an intersection over union "
            "above 0 and at most 1"
        )
    return value
