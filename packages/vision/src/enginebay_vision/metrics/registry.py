"""The metrics ``vision:NAME``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import InputError, UsageError, nearest
from enginebay_vision.metrics.average_precision import BoxPrecision, KeypointPrecision
from enginebay_vision.metrics.image_metric import PictureMetric, sum_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.authors import NumpyArray
    from enginebay_vision.results import FoundMap, Segment
    from enginebay_vision.truth.annotated import Target


class MeanIoU(PictureMetric):
    """The mean over classes of the intersection over union of predicted and true pixels.

    Pixels without a true class do not count, nor do classes without any pixel.
    """

    def reset(self) -> None:
        """Forget all items."""
        self.metric_state = {"counts": np.zeros((3, 0), np.int64)}

    def add(self, found: FoundMap[Segment], target: Target) -> None:
        """Add a mask."""
        seen = target.truth >= 0
        mask, right = found.array[seen], target.truth[seen]
        size = max(mask.max(initial=-1), right.max(initial=-1)) + 1
        each = (mask[mask == right], mask[mask >= 0], right)
        self.merge_state({"counts": np.stack([np.bincount(c, minlength=size) for c in each])})

    def merge_state(self, state: Mapping[str, Any]) -> None:
        """Add the pixels of another metric of this kind."""
        self.metric_state = {"counts": sum_counts(self.metric_state["counts"], state["counts"])}

    def compute(self) -> float:
        """Return the mean; NaN before the first item."""
        both, found, true = self.metric_state["counts"]
        union = found + true - both
        return float((both[union > 0] / union[union > 0]).mean()) if union.any() else np.nan


class PictureMean(PictureMetric):
    """The quotient of two sums over all images.

    Args:
        measure: Returns an image's contribution to both sums, from result and target.
        kind: The kind of task that the metric measures.
        higher_is_better: False for errors.
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
        """Forget all items."""
        self.metric_state = {"sum": 0.0, "count": 0}

    def add(self, found: Any, target: Target) -> None:
        """Add an image."""
        total, count = self._measure(found, target)
        self.merge_state({"sum": float(total), "count": count})

    def merge_state(self, state: Mapping[str, Any]) -> None:
        """Add the images of another metric of this kind."""
        self.metric_state = {name: self.metric_state[name] + state[name] for name in state}

    def compute(self) -> float:
        """Return the quotient; NaN before the first item."""
        total, count = self.metric_state["sum"], self.metric_state["count"]
        return total / count if count else float("nan")


def _compute_psnr(found: Any, target: Target) -> tuple[float, int]:
    """Return the peak signal-to-noise ratio in decibels."""
    if found.array.shape != target.truth.shape:
        shapes = ["x".join(map(str, each.shape[1::-1])) for each in (found.array, target.truth)]
        raise InputError(f"wrong size of the image: expected {shapes[1]} pixels, found {shapes[0]}")
    error = np.square(found.array.astype(np.float64) - target.truth).mean()
    return (float("inf") if error == 0 else 10 * np.log10(255**2 / error)), 1


def _known_depths(found: Any, target: Target) -> tuple[NumpyArray, NumpyArray]:
    """Return the predicted and the true depths of the pixels that have both."""
    known = (target.truth > 0) & np.isfinite(found.array)
    if not known.any():
        raise InputError("no pixel has a known depth")
    depth, true = (array[known].astype(np.float64) for array in (found.array, target.truth))
    if target.task.relative:
        columns = np.stack([depth, np.ones_like(depth)], axis=1)
        inverse = columns @ np.linalg.lstsq(columns, 1 / true, rcond=None)[0]
        depth = 1 / np.maximum(inverse, 1 / true.max())  # at most the largest true depth
    return depth, true


def _relative_error(found: Any, target: Target) -> tuple[float, int]:
    """Return the mean relative error of depths."""
    depth, true = _known_depths(found, target)
    return float(np.mean(np.abs(depth - true) / true)), 1


def _compute_rmse(found: Any, target: Target) -> tuple[float, int]:
    """Return the root of the mean squared error of depths."""
    depth, true = _known_depths(found, target)
    return float(np.sqrt(np.mean(np.square(depth - true)))), 1


def _count_edits(found: Any, target: Target) -> tuple[float, int]:
    """Return the edit distance to the true text, and the number of true characters."""
    text = found[0].text
    row = list(range(len(text) + 1))
    for number, character in enumerate(target.truth, 1):
        before, row = row, [number]
        for place, other in enumerate(text):
            changed = before[place] + (character != other)
            row.append(min(changed, before[place + 1] + 1, row[place] + 1))
    return row[-1], len(target.truth)


_METRICS: dict[str, Callable[[], PictureMetric]] = {
    "miou": lambda: MeanIoU("semantic-segmentation"),
    "psnr": lambda: PictureMean(_compute_psnr, "image-to-image", higher_is_better=True),
    "abs-rel": lambda: PictureMean(_relative_error, "depth-estimation"),
    "rmse": lambda: PictureMean(_compute_rmse, "depth-estimation"),
    "map": lambda: BoxPrecision("object-detection"),
    "oks-ap": lambda: KeypointPrecision("keypoint-detection"),
    "cer": lambda: PictureMean(_count_edits, "text-recognition"),
}


def build_metric(name: str) -> PictureMetric:
    """Build the metric of this name.

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
