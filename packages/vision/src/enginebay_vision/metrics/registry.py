"""Builds the metrics ``vision:NAME``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import InputError, UsageError, nearest
from enginebay_vision.metrics.average_precision import (
    BoxPrecision,
    KeypointPrecision,
    MaskPrecision,
)
from enginebay_vision.metrics.image_metric import ImageMetric, sum_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from enginebay.authors.arrays import NumpyArray
    from enginebay_vision.results import DepthRange, FoundMap, MadePicture, Segment, Text
    from enginebay_vision.truth.annotated import Target


class MeanIoU(ImageMetric):
    """Computes the mean over classes of the intersection over union of predicted and true pixels.

    Pixels without a true class are ignored. The mean omits classes that have neither predicted nor
    true pixels.
    """

    def reset(self) -> None:
        """Remove all images from the metric."""
        # A column for each class; rows: the numbers of correct, predicted and true pixels.
        self.metric_state = {"counts": np.zeros((3, 0), np.int64)}

    def add_image(self, results: FoundMap[Segment], target: Target) -> None:
        """Add the predicted and the true mask of an image."""
        has_class = target.truth >= 0
        mask, true = results.array[has_class], target.truth[has_class]
        size = max(mask.max(initial=-1), true.max(initial=-1)) + 1
        # Cropped pixels have no predicted class: they count as true pixels only.
        rows = (mask[mask == true], mask[mask >= 0], true)
        counts = np.stack([np.bincount(classes, minlength=size) for classes in rows])
        self.merge_state({"counts": counts})

    def merge_state(self, state: Mapping[str, NumpyArray]) -> None:
        """Add the pixel counts of another ``MeanIoU``."""
        self.metric_state = {"counts": sum_counts(self.metric_state["counts"], state["counts"])}

    def compute(self) -> float:
        """Return the mean over classes; NaN before the first image."""
        correct, predicted, true = self.metric_state["counts"]
        union = predicted + true - correct
        return float((correct[union > 0] / union[union > 0]).mean()) if union.any() else np.nan


class SumRatio(ImageMetric):
    """Computes a quotient of two sums over all images, such as the edits per character.

    Args:
        measure: The function that computes the two numbers that an image adds to the sums, from
            the task's results and the target.
        kind: The kind of task whose results the metric measures.
        higher_is_better: True if a larger quotient is better; False for errors.
    """

    def __init__(
        self,
        measure: Callable[[Any, Target], tuple[float, int]],
        kind: str,
        *,
        higher_is_better: bool = False,
    ) -> None:
        super().__init__(kind)
        self._measure = measure
        self.higher_is_better = higher_is_better

    def reset(self) -> None:
        """Remove all images from the metric."""
        self.metric_state: dict[str, float] = {"sum": 0.0, "count": 0}

    def add_image(self, results: Any, target: Target) -> None:
        """Add an image's two numbers to the sums."""
        total, count = self._measure(results, target)
        self.merge_state({"sum": float(total), "count": count})

    def merge_state(self, state: Mapping[str, float]) -> None:
        """Add the two sums of another metric with the same ``measure``."""
        self.metric_state = {name: self.metric_state[name] + state[name] for name in state}

    def compute(self) -> float:
        """Return the quotient of the sums; NaN if the divisor is 0."""
        total, count = self.metric_state["sum"], self.metric_state["count"]
        return total / count if count else float("nan")


def _compute_psnr(results: FoundMap[MadePicture], target: Target) -> tuple[float, int]:
    """Return an image's peak signal-to-noise ratio in decibels, and 1 as the number of images."""
    expected, actual = target.truth, results.array
    if actual.shape != expected.shape:
        sizes = ["x".join(map(str, array.shape[1::-1])) for array in (expected, actual)]
        raise InputError(f"wrong size of the output: expected {sizes[0]} pixels, found {sizes[1]}")
    # In float64: differences of uint8 values would wrap around.
    error = np.square(actual.astype(np.float64) - expected).mean()
    return (float("inf") if error == 0 else 10 * np.log10(255**2 / error)), 1


def _compare_depths(results: FoundMap[DepthRange], target: Target) -> tuple[NumpyArray, NumpyArray]:
    """Return the predicted and the true depths of all pixels where both are known.

    For a task with relative depths, the predicted depths are first fitted to the true depths.
    """
    is_known = (target.truth > 0) & np.isfinite(results.array)
    if not is_known.any():
        raise InputError("no pixel has both a true and a predicted depth")
    depth, true = (array[is_known].astype(np.float64) for array in (results.array, target.truth))
    if target.task.relative:
        # The scale and shift of the inverse depths that fit the true ones best.
        columns = np.stack([depth, np.ones_like(depth)], axis=1)
        inverse = columns @ np.linalg.lstsq(columns, 1 / true, rcond=None)[0]
        # At most the largest true depth: a fitted inverse depth may be 0 or negative.
        depth = 1 / np.maximum(inverse, 1 / true.max())
    return depth, true


def _relative_error(results: FoundMap[DepthRange], target: Target) -> tuple[float, int]:
    depth, true = _compare_depths(results, target)
    return float(np.mean(np.abs(depth - true) / true)), 1


def _compute_rmse(results: FoundMap[DepthRange], target: Target) -> tuple[float, int]:
    depth, true = _compare_depths(results, target)
    return float(np.sqrt(np.mean(np.square(depth - true)))), 1


def _count_edits(results: Sequence[Text], target: Target) -> tuple[float, int]:
    """Return the edit distance to the true text, and the number of true characters."""
    text = results[0].text
    # Levenshtein's distance, with only two rows of the table in memory.
    row = list(range(len(text) + 1))
    for number, character in enumerate(target.truth, 1):
        before, row = row, [number]
        for index, other in enumerate(text):
            changed = before[index] + (character != other)
            row.append(min(changed, before[index + 1] + 1, row[index] + 1))
    return row[-1], len(target.truth)


#: Functions that make a new metric: metrics have state.
_METRICS: dict[str, Callable[[], ImageMetric]] = {
    "miou": lambda: MeanIoU("semantic-segmentation"),
    "psnr": lambda: SumRatio(_compute_psnr, "image-to-image", higher_is_better=True),
    "abs-rel": lambda: SumRatio(_relative_error, "depth-estimation"),
    "rmse": lambda: SumRatio(_compute_rmse, "depth-estimation"),
    "map": lambda: BoxPrecision("object-detection", "instance-segmentation"),
    "mask-map": lambda: MaskPrecision("instance-segmentation"),
    "oks-ap": lambda: KeypointPrecision("keypoint-detection"),
    "cer": lambda: SumRatio(_count_edits, "text-recognition"),
}


def build_metric(name: str) -> ImageMetric:
    """Return a new metric; ``name`` is the part after ``vision:``.

    Raises:
        UsageError: The name is unknown.
    """
    if name not in _METRICS:
        close = nearest(name, _METRICS)
        raise UsageError(
            f"unknown metric 'vision:{name}'; available: {', '.join(_METRICS)}",
            hint=f"did you mean 'vision:{close}'?" if close else None,
        )
    return _METRICS[name]()
