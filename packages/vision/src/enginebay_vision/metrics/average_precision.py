"""Average precision by COCO's rules, for boxes, masks and keypoints.

For random boxes, masks and points, the results equal those of pycocotools 2.0.11 exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import InputError
from enginebay_vision.metrics.image_metric import ImageMetric, sum_counts
from enginebay_vision.truth.masks import import_pycocotools

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.authors.arrays import NumpyArray
    from enginebay_vision.results import Box, FoundInstances, Keypoint
    from enginebay_vision.truth.annotated import Target
    from enginebay_vision.truth.boxes import TrueBoxes

#: COCO's thresholds: a match requires at least this similarity to a true object.
_MIN_SIMILARITIES = np.linspace(0.5, 0.95, 10)
#: The recalls at which COCO evaluates the precision.
_RECALLS = np.linspace(0, 1, 101)
#: The number of boxes of a class in an image that count: those with the best scores.
_MAX_BOXES = 100
#: The state of a result that matches an ignored object: it is neither right nor wrong.
_IGNORED = -1

#: COCO's standard deviations of the annotations of its 17 body points, relative to the body's size.
BODY_SIGMAS = (
    *(0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072),
    *(0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089, 0.089),
)


class AveragePrecision(ImageMetric):
    """Computes the mean average precision over all classes and COCO's ten similarity thresholds."""

    def reset(self) -> None:
        """Remove all images from the metric."""
        # "found" has a row for each result: class, score, and a state for each threshold, which is
        # 1, 0 or _IGNORED. "true" has the number of true objects of each class.
        self.metric_state: dict[str, Any] = {"found": [], "true": np.zeros((1, 0), np.int64)}

    def add_class(
        self, index: int, scores: NumpyArray, similar: NumpyArray, ignored: NumpyArray
    ) -> None:
        """Add the results for one class in an image.

        Args:
            index: The class index.
            scores: The score of each result, the highest first.
            similar: The similarity of each result (row) to each true object (column).
            ignored: True for each true object that metrics ignore, such as a group of objects.
        """
        true = np.zeros((1, index + 1), np.int64)
        true[0, index] = np.count_nonzero(~ignored)
        rows = np.full((len(scores), 2 + len(_MIN_SIMILARITIES)), float(index))
        rows[:, 1] = scores
        for column, threshold in enumerate(_MIN_SIMILARITIES, 2):
            rows[:, column] = _match_objects(similar, ignored, threshold)
        self.merge_state({"found": [rows], "true": true})

    def merge_state(self, state: Mapping[str, Any]) -> None:
        """Add the images of another metric of the same type; ``state`` is that metric's state."""
        self.metric_state = {
            "found": [*self.metric_state["found"], *state["found"]],
            "true": sum_counts(self.metric_state["true"], state["true"]),
        }

    def compute(self) -> float:
        """Return the mean average precision; NaN if all true objects are ignored, or none exist."""
        (true,) = self.metric_state["true"]
        # The empty array is for a metric without images, which has nothing to concatenate.
        rows = np.concatenate(
            [np.zeros((0, 2 + len(_MIN_SIMILARITIES))), *self.metric_state["found"]]
        )
        # Stable, as in pycocotools: results with equal scores stay in the order of the images.
        rows = rows[np.argsort(-rows[:, 1], kind="stable")]
        precisions = [
            _average_precision(states, true[index])
            for index in np.flatnonzero(true)
            for states in rows[rows[:, 0] == index, 2:].T
        ]
        return float(np.mean(precisions)) if precisions else float("nan")


class BoxPrecision(AveragePrecision):
    """Computes the average precision of boxes, with intersection over union as the similarity."""

    def add_image(self, results: Sequence[Box], target: Target) -> None:
        """Add the detected and the true objects of an image."""
        truth = target.truth
        scores = np.asarray([box.score for box in results])
        classes = np.asarray([box.index for box in results], np.int64)
        # Also classes with true objects only, which were missed, or with results only.
        for index in np.union1d(classes, truth.classes).tolist():
            detected = np.flatnonzero(classes == index)[:_MAX_BOXES]
            true = np.flatnonzero(truth.classes == index)
            similar = self.compare_objects(results, detected, truth, true)
            self.add_class(index, scores[detected], similar, truth.ignored[true])

    def compare_objects(
        self, results: Any, detected: NumpyArray, truth: TrueBoxes, true: NumpyArray
    ) -> NumpyArray:
        """Return the overlap of each detected object (row) and each true object (column).

        ``detected`` are indices in the task's results, ``true`` indices in the annotation.
        """
        boxes = [results[index] for index in detected]
        edges = [(box.left, box.top, box.right, box.bottom) for box in boxes]
        found = np.asarray(edges, np.float64).reshape(-1, 4)
        return _pairwise_overlaps(found, truth.corners[true], truth.ignored[true])


class MaskPrecision(BoxPrecision):
    """Computes the average precision of masks, with intersection over union as the similarity."""

    def compare_objects(
        self, results: FoundInstances, detected: NumpyArray, truth: TrueBoxes, true: NumpyArray
    ) -> NumpyArray:
        """Return the overlap of the masks of detected objects (rows) and true objects (columns)."""
        coco = import_pycocotools()
        found = []
        for index in detected:
            whole = np.zeros(results.size[::-1], np.uint8, order="F")  # as pycocotools expects it
            results.masks[index].select(whole)[:] = results.masks[index].pixels
            found.append(coco.encode(whole))
        masks = [truth.masks[index] for index in true]
        overlaps = coco.iou(found, masks, truth.ignored[true].tolist())
        return np.reshape(overlaps, (len(found), len(masks)))  # pycocotools returns [] without any


class KeypointPrecision(AveragePrecision):
    """Computes the average precision of bodies, with COCO's object keypoint similarity (OKS)."""

    def add_image(self, results: Sequence[Keypoint], target: Target) -> None:
        """Add the detected and the true keypoints of the one body in an image."""
        sigmas = target.task.sigmas or BODY_SIGMAS
        if len(sigmas) != len(results):
            raise InputError(
                f"the metric requires the task's 'sigmas' for {len(results)} points",
                hint="add 'sigmas' to the task, one number for each point",
            )
        points, area = target.truth
        is_known = points[:, 2] > 0
        positions = np.asarray([(point.x, point.y) for point in results])
        distances = np.square(positions - points[:, :2]).sum(-1)
        # OKS of a point: exp(-distance² / (2 · area · (2 · sigma)²)). The area may be 0.
        spread = 2 * area * np.square(2 * np.asarray(sigmas))
        similar = np.exp(-distances / np.maximum(spread, 1e-12))[is_known].mean()
        # The score of a body is the mean score of its points.
        score = np.mean([[point.score for point in results]], axis=1)
        self.add_class(0, score, similar.reshape(1, 1), np.zeros(1, bool))


def _pairwise_overlaps(found: NumpyArray, true: NumpyArray, ignored: NumpyArray) -> NumpyArray:
    """Return COCO's intersection over union of each found box (row) and each true box (column)."""
    low = np.maximum(found[:, None, :2], true[None, :, :2])
    high = np.minimum(found[:, None, 2:], true[None, :, 2:])
    both = (high - low).clip(0).prod(-1)
    found_area, true_area = (
        (boxes[:, 2:] - boxes[:, :2]).clip(0).prod(-1) for boxes in (found, true)
    )
    # A group contains many smaller boxes: COCO divides by the area of the found box alone.
    divisor = found_area[:, None] + np.where(ignored, 0, true_area - both)
    result: NumpyArray = np.divide(both, divisor, out=np.zeros(both.shape), where=both > 0)
    return result


def _match_objects(similar: NumpyArray, ignored: NumpyArray, threshold: float) -> NumpyArray:
    """Match results with true objects, and return a state for each result.

    The state is 1 for a match, ``_IGNORED`` for a match with an ignored object, and else 0.
    """
    free = np.ones(len(ignored), bool)
    states = np.zeros(len(similar))
    for result, row in enumerate(similar):
        possible = free & (row >= threshold)
        counted = possible & ~ignored
        # As in pycocotools, an ignored object is matched only if no other object is similar enough.
        if counted.any():
            # The last one of equally similar objects: masks of few pixels often are.
            best = len(row) - 1 - np.where(counted, row, -1)[::-1].argmax()
            free[best] = False
            states[result] = 1
        elif possible.any():  # a group stays free: it may match any number of results
            states[result] = _IGNORED
    return states


def _average_precision(states: NumpyArray, true_count: int) -> float:
    """Return the mean precision at 101 recalls.

    ``states`` has the state of each result (1, 0 or ``_IGNORED``), the best score first.
    """
    hits = states[states != _IGNORED]
    correct = np.cumsum(hits)
    precision = correct / np.arange(1, len(hits) + 1)
    # The best precision at this or any higher recall.
    best = np.maximum.accumulate(precision[::-1])[::-1]
    indices = np.searchsorted(correct / true_count, _RECALLS, side="left")
    # A recall that is never reached has a precision of 0.
    return float(np.append(best, 0.0)[np.minimum(indices, len(best))].mean())
