"""Average precision by COCO's rules, for boxes and for keypoints.

The results on random boxes and points equal those of pycocotools 2.0.11 to the last digit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import InputError
from enginebay_vision.metrics.image_metric import PictureMetric, sum_counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.authors import NumpyArray
    from enginebay_vision.results import Box, Keypoint
    from enginebay_vision.truth.annotated import Target

#: The minimum similarities of matches, and the recalls at which precision is evaluated.
_MIN_SIMILARITIES = np.linspace(0.5, 0.95, 10)
_RECALLS = np.linspace(0, 1, 101)
#: Only the best boxes of a class in an image count, up to this number.
_MAX_BOXES = 100
#: The state of a match with an object that does not count.
_IGNORED = -1

#: COCO's standard deviations of annotated body points.
BODY_SIGMAS = (
    *(0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072),
    *(0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089, 0.089),
)


class AveragePrecision(PictureMetric):
    """The mean over classes, and over similarities from 0.5 to 0.95, of the average precision."""

    def reset(self) -> None:
        """Forget all items."""
        # A row for each result: class, score, and 1, 0 or _IGNORED for each similarity.
        self.metric_state: dict[str, Any] = {"found": [], "true": np.zeros((1, 0), np.int64)}

    def add_class(
        self, index: int, scores: NumpyArray, similar: NumpyArray, ignored: NumpyArray
    ) -> None:
        """Add the results of one class in an image.

        Args:
            index: The class index.
            scores: The score of each result, best first.
            similar: The similarity of each result to each true object.
            ignored: Whether each true object does not count.
        """
        true = np.zeros((1, index + 1), np.int64)
        true[0, index] = np.count_nonzero(~ignored)
        rows = np.full((len(scores), 2 + len(_MIN_SIMILARITIES)), float(index))
        rows[:, 1] = scores
        for column, needed in enumerate(_MIN_SIMILARITIES, 2):
            rows[:, column] = _match_objects(similar, ignored, min(needed, 1 - 1e-10))
        self.merge_state({"found": [rows], "true": true})

    def merge_state(self, state: Mapping[str, Any]) -> None:
        """Add the images of another metric of this kind."""
        self.metric_state = {
            "found": [*self.metric_state["found"], *state["found"]],
            "true": sum_counts(self.metric_state["true"], state["true"]),
        }

    def compute(self) -> float:
        """Return the mean; NaN if no true object counts."""
        (true,) = self.metric_state["true"]
        rows = np.concatenate(
            [np.zeros((0, 2 + len(_MIN_SIMILARITIES))), *self.metric_state["found"]]
        )
        rows = rows[np.argsort(-rows[:, 1], kind="stable")]
        precisions = [
            _average_precision(states, true[index])
            for index in np.flatnonzero(true)
            for states in rows[rows[:, 0] == index, 2:].T
        ]
        return float(np.mean(precisions)) if precisions else float("nan")


class BoxPrecision(AveragePrecision):
    """Average precision of boxes, by their overlap."""

    def add(self, found: Sequence[Box], target: Target) -> None:
        """Add an image."""
        truth = target.truth
        edges = np.asarray([(b.left, b.top, b.right, b.bottom) for b in found]).reshape(-1, 4)
        scores = np.asarray([box.score for box in found])
        classes = np.asarray([box.index for box in found], np.int64)
        for index in np.union1d(classes, truth.classes).tolist():
            own, others = np.flatnonzero(classes == index)[:_MAX_BOXES], truth.classes == index
            ignored = truth.ignored[others]
            similar = _pairwise_overlaps(edges[own], truth.corners[others], ignored)
            self.add_class(index, scores[own], similar, ignored)


class KeypointPrecision(AveragePrecision):
    """Average precision of the points of one body, by their distances (OKS)."""

    def add(self, found: Sequence[Keypoint], target: Target) -> None:
        """Add an image of one body."""
        sigmas = target.task.sigmas or BODY_SIGMAS
        if len(sigmas) != len(found):
            raise InputError(
                f"the metric requires sigmas for {len(found)} points",
                hint="add sigmas to the task, one for each point",
            )
        points, area = target.truth
        known = points[:, 2] > 0
        places = np.asarray([(point.x, point.y) for point in found])
        distances = np.square(places - points[:, :2]).sum(-1)
        spread = 2 * area * np.square(2 * np.asarray(sigmas))
        similar = np.exp(-distances / np.maximum(spread, 1e-12))[known].mean()
        score = np.mean([[point.score for point in found]], axis=1)
        self.add_class(0, score, similar.reshape(1, 1), np.zeros(1, bool))


def _pairwise_overlaps(found: NumpyArray, true: NumpyArray, ignored: NumpyArray) -> NumpyArray:
    """Return the intersection over union of each pair; with a group, over the box alone."""
    low = np.maximum(found[:, None, :2], true[None, :, :2])
    high = np.minimum(found[:, None, 2:], true[None, :, 2:])
    both = (high - low).clip(0).prod(-1)
    own, other = ((side[:, 2:] - side[:, :2]).clip(0).prod(-1) for side in (found, true))
    whole = own[:, None] + np.where(ignored, 0, other - both)
    result: NumpyArray = np.divide(both, whole, out=np.zeros(both.shape), where=both > 0)
    return result


def _match_objects(similar: NumpyArray, ignored: NumpyArray, needed: float) -> NumpyArray:
    """Return, for each result in order: 1 if it matches a true object, 0, or _IGNORED."""
    left = np.ones(len(ignored), bool)
    states = np.zeros(len(similar))
    for place, row in enumerate(similar):
        possible = left & (row >= needed)
        counted = possible & ~ignored
        if counted.any():
            left[np.where(counted, row, -1).argmax()] = False
            states[place] = 1
        elif possible.any():  # a group may match any number of results
            states[place] = _IGNORED
    return states


def _average_precision(states: NumpyArray, true: int) -> float:
    """Return the mean precision at 101 recalls of results in the order of their scores."""
    hits = states[states != _IGNORED]
    right = np.cumsum(hits)
    precision = right / np.arange(1, len(hits) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(right / true, _RECALLS, side="left")
    return float(np.append(best, 0.0)[np.minimum(places, len(best))].mean())
