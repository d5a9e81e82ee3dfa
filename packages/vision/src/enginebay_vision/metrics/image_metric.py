"""The base of the metrics of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import InputError
from enginebay_vision.truth.annotated import Target

if TYPE_CHECKING:
    from enginebay.authors import NumpyArray


class PictureMetric:
    """Base class of the metrics of images.

    Args:
        kind: The kind of task that the metric measures.
    """

    higher_is_better = True

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.reset()

    def reset(self) -> None:
        """Forget all items."""
        raise NotImplementedError

    def update(self, outputs: Any, target: Any) -> None:
        """Add an image.

        Args:
            outputs: The model's outputs by name, or its only output.
            target: The target of an item in a folder with annotations.

        Raises:
            InputError: The target is not an annotation of an image, or is for a different task.
        """
        if not isinstance(target, Target):
            raise InputError(
                f"the target is of type {type(target).__name__}; expected an image's annotation",
                hint="use a folder of images and annotations, and deploy the model with a task",
            )
        kind = type(target.task).__struct_config__.tag
        if kind != self._kind:
            raise InputError(f"the metric measures {self._kind}, but the artifact's task is {kind}")
        self.add(target.find(outputs), target)

    def add(self, found: Any, target: Target) -> None:
        """Add the result of ``postprocess`` for an image."""
        raise NotImplementedError


def sum_counts(left: NumpyArray, right: NumpyArray) -> NumpyArray:
    """Add two tables of counts, whose numbers of classes may differ."""
    total = np.zeros((len(left), max(left.shape[1], right.shape[1])), np.int64)
    total[:, : left.shape[1]] += left
    total[:, : right.shape[1]] += right
    return total
