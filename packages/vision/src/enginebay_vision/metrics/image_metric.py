"""The base class of the metrics of image tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import InputError
from enginebay_vision.truth.annotated import Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.authors.arrays import NumpyArray


class ImageMetric:
    """Base class of the metrics of image tasks.

    Args:
        kinds: The kinds of tasks whose results the metric measures, such as ``object-detection``.
    """

    higher_is_better = True

    def __init__(self, *kinds: str) -> None:
        self._kinds = kinds
        self.reset()

    def reset(self) -> None:
        """Remove all images from the metric."""
        raise NotImplementedError

    def update(self, outputs: Mapping[str, NumpyArray] | NumpyArray, target: object) -> None:
        """Add an image: the outputs (a dict by name, or the only output) and the annotation.

        Raises:
            InputError: The target is not an annotation of an image, or is for a different task.
        """
        if not isinstance(target, Target):
            raise InputError(
                f"the target is of type {type(target).__name__}; expected an image's annotation",
                hint="use a folder of images and annotations, and deploy the model with a task",
            )
        kind = type(target.task).__struct_config__.tag
        if kind not in self._kinds:
            wanted = " and ".join(self._kinds)
            raise InputError(f"the metric is for {wanted}, but the artifact's task is {kind}")
        self.add_image(target.postprocess_outputs(outputs), target)

    def add_image(self, results: Any, target: Target) -> None:
        """Add an image: the results that the task computed from the outputs, and the annotation."""
        raise NotImplementedError


def sum_counts(left: NumpyArray, right: NumpyArray) -> NumpyArray:
    """Return the sum of two tables with a column for each class; missing columns are zeros."""
    total = np.zeros((len(left), max(left.shape[1], right.shape[1])), np.int64)
    total[:, : left.shape[1]] += left
    total[:, : right.shape[1]] += right
    return total
