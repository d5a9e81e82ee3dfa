"""The metrics of pictures, ``vision:NAME``: what a task finds, held against annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import InputError, UsageError, nearest
from enginebay_vision.truth.annotated import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay.authors import NumpyArray


class PictureMetric:
    """What metrics of pictures share.

    Args:
        name: The metric's name.
        kinds: The kinds of tasks that it measures.
    """

    higher_is_better = True

    def __init__(self, name: str, *kinds: str) -> None:
        self._name = name
        self._kinds = kinds
        self.reset()

    def reset(self) -> None:
        """Forget all items."""
        raise NotImplementedError

    def update(self, outputs: Any, target: Any) -> None:
        """Add a picture.

        Args:
            outputs: The model's outputs by name, or its only one.
            target: What a folder with annotations gives.

        Raises:
            InputError: It comes from elsewhere, or belongs to another task.
        """
        if not isinstance(target, Target):
            raise InputError(
                f"the target is of type {type(target).__name__}, wanted a picture's annotation",
                hint="give a folder of pictures and annotations, and deploy the model with a task",
            )
        kind = type(target.task).__struct_config__.tag
        if kind not in self._kinds:
            raise InputError(
                f"it measures {' and '.join(self._kinds)}, and the artifact's task is {kind}"
            )
        self.add(target.find(outputs), target.truth)

    def add(self, found: Any, truth: Any) -> None:
        """Add what was found in a picture, and what is true of it."""
        raise NotImplementedError


class MeanIoU(PictureMetric):
    """The mean over classes of the shared pixels' part of those that are found or true.

    Pixels without a true class do not count, nor do classes that occur nowhere.
    """

    def reset(self) -> None:
        """Forget all items."""
        self.metric_state = {"counts": np.zeros((3, 0), np.int64)}

    def add(self, found: Any, truth: Any) -> None:
        """Add a mask."""
        seen = truth >= 0
        mask, right = found.array[seen], truth[seen]
        size = max(mask.max(initial=-1), right.max(initial=-1)) + 1
        each = (mask[mask == right], mask[mask >= 0], right)
        self.merge_state({"counts": np.stack([np.bincount(c, minlength=size) for c in each])})

    def merge_state(self, state: Mapping[str, Any]) -> None:
        """Add the pixels of another metric of this kind."""
        self.metric_state = {"counts": _sum(self.metric_state["counts"], state["counts"])}

    def compute(self) -> float:
        """The mean; NaN before the first item."""
        both, found, true = self.metric_state["counts"]
        union = found + true - both
        return float((both[union > 0] / union[union > 0]).mean()) if union.any() else np.nan


def _sum(one: NumpyArray, other: NumpyArray) -> NumpyArray:
    """The sum of counts of the classes, where each may know of more than the other."""
    total = np.zeros((len(one), max(one.shape[1], other.shape[1])), np.int64)
    total[:, : one.shape[1]] += one
    total[:, : other.shape[1]] += other
    return total


_METRICS: dict[str, Callable[[str], PictureMetric]] = {
    "miou": lambda name: MeanIoU(name, "semantic-segmentation"),
}


def build_metric(name: str) -> PictureMetric:
    """Build the metric of this name.

    Raises:
        UsageError: There is none.
    """
    if name not in _METRICS:
        close = nearest(name, _METRICS)
        raise UsageError(
            f"unknown metric 'vision:{name}'; available: {', '.join(_METRICS)}",
            hint=f"did you mean 'vision:{close}'?" if close else None,
        )
    return _METRICS[name](name)
