"""Average precision as COCO computes it, for boxes and for keypoints.

On random boxes and points the figures are those of pycocotools 2.0.11, to the last digit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import InputError
from enginebay_vision.metrics.picture_metric import PictureMetric, add_counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.authors import NumpyArray
    from enginebay_vision.found import Box, Keypoint
    from enginebay_vision.truth.annotated import Target

#: The similarities that a match needs, and the recalls at which precision is read.
_NEEDED = np.linspace(0.5, 0.95, 10)
_RECALLS = np.linspace(0, 1, 101)
#: Of more boxes of one class in one picture only the best count.
_MOST = 100
#: A match with an object that does not count.
_IGNORED = -1

#: How exactly people place the points of a body, by COCO's measurements.
BODY_SIGMAS = (
    *(0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072),
    *(0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089, 0.089),
)


class AveragePrecision(PictureMetric):
    """The mean over classes, and over similarities from 0.5 to 0.95, of the average precision."""

    def reset(self) -> None:
        """Forget all items."""
        # A row for each thing found: class, score, and for each similarity 1, 0 or _IGNORED.
        self.metric_state: dict[str, Any] = {"found": [], "true": np.zeros((1, 0), np.int64)}

    def add_class(
        self, index: int, scores: NumpyArray, similar: NumpyArray, ignored: NumpyArray
    ) -> None:
        """Add the things found of one class in a picture.

        Args:
            index: The class's number.
            scores: For each thing that was found, the best first.
            similar: How similar each is to each true one.
            ignored: For each true one, True if it does not count.
        """
        true = np.zeros((1, index + 1), np.int64)
        true[0, index] = np.count_nonzero(~ignored)
        rows = np.full((len(scores), 2 + len(_NEEDED)), float(index))
        rows[:, 1] = scores
        for column, needed in enumerate(_NEEDED, 2):
            rows[:, column] = _matches(similar, ignored, min(needed, 1 - 1e-10))
        self.merge_state({"found": [rows], "true": true})

    def merge_state(self, state: Mapping[str, Any]) -> None:
        """Add the pictures of another metric of this kind."""
        self.metric_state = {
            "found": [*self.metric_state["found"], *state["found"]],
            "true": add_counts(self.metric_state["true"], state["true"]),
        }

    def compute(self) -> float:
        """The mean; NaN where no true object counts."""
        (true,) = self.metric_state["true"]
        rows = np.concatenate([np.zeros((0, 2 + len(_NEEDED))), *self.metric_state["found"]])
        rows = rows[np.argsort(-rows[:, 1], kind="stable")]
        precisions = [
            _average(states, true[index])
            for index in np.flatnonzero(true)
            for states in rows[rows[:, 0] == index, 2:].T
        ]
        return float(np.mean(precisions)) if precisions else float("nan")


class BoxPrecision(AveragePrecision):
    """Average precision of boxes, by their overlap."""

    def add(self, found: Sequence[Box], target: Target) -> None:
        """Add a picture."""
        truth = target.truth
        edges = np.asarray([(b.left, b.top, b.right, b.bottom) for b in found]).reshape(-1, 4)
        scores = np.asarray([box.score for box in found])
        classes = np.asarray([box.index for box in found], np.int64)
        for index in np.union1d(classes, truth.classes).tolist():
            own, others = np.flatnonzero(classes == index)[:_MOST], truth.classes == index
            ignored = truth.ignored[others]
            similar = _shared(edges[own], truth.corners[others], ignored)
            self.add_class(index, scores[own], similar, ignored)


class KeypointPrecision(AveragePrecision):
    """Average precision of the points of one body, by their distances (OKS)."""

    def add(self, found: Sequence[Keypoint], target: Target) -> None:
        """Add a picture of one body."""
        sigmas = target.task.sigmas or BODY_SIGMAS
        if len(sigmas) != len(found):
            raise InputError(
                f"nothing says how exact {len(found)} points can be",
                hint="give the task sigmas, one for each point",
            )
        points, area = target.truth
        known = points[:, 2] > 0
        places = np.asarray([(point.x, point.y) for point in found])
        distances = np.square(places - points[:, :2]).sum(-1)
        spread = 2 * area * np.square(2 * np.asarray(sigmas))
        similar = np.exp(-distances / np.maximum(spread, 1e-12))[known].mean()
        score = np.mean([[point.score for point in found]], axis=1)
        self.add_class(0, score, similar.reshape(1, 1), np.zeros(1, bool))


def _shared(found: NumpyArray, true: NumpyArray, ignored: NumpyArray) -> NumpyArray:
    """The part of each union that two boxes share; with a group, the part of the box alone."""
    low = np.maximum(found[:, None, :2], true[None, :, :2])
    high = np.minimum(found[:, None, 2:], true[None, :, 2:])
    both = (high - low).clip(0).prod(-1)
    own, other = ((side[:, 2:] - side[:, :2]).clip(0).prod(-1) for side in (found, true))
    whole = own[:, None] + np.where(ignored, 0, other - both)
    result: NumpyArray = np.divide(both, whole, out=np.zeros(both.shape), where=both > 0)
    return result


def _matches(similar: NumpyArray, ignored: NumpyArray, needed: float) -> NumpyArray:
    """For each thing found, the best first: 1 if it matches a true one, 0, or _IGNORED."""
    left = np.ones(len(ignored), bool)
    states = np.zeros(len(similar))
    for place, row in enumerate(similar):
        possible = left & (row >= needed)
        counted = possible & ~ignored
        if counted.any():
            left[np.where(counted, row, -1).argmax()] = False
            states[place] = 1
        elif possible.any():  # a group is as many as are found
            states[place] = _IGNORED
    return states


def _average(states: NumpyArray, true: int) -> float:
    """The mean precision at 101 recalls, of things found in the order of their scores."""
    hits = states[states != _IGNORED]
    right = np.cumsum(hits)
    precision = right / np.arange(1, len(hits) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(right / true, _RECALLS, side="left")
    return float(np.append(best, 0.0)[np.minimum(places, len(best))].mean())
