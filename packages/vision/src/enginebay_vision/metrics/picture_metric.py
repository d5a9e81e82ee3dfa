"""The base of the metrics of pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import InputError
from enginebay_vision.truth.annotated import Target

if TYPE_CHECKING:
    from enginebay.authors import NumpyArray


class PictureMetric:
    """Base class of the metrics of pictures.

    Args:
        kind: The kind of task that it measures.
    """

    higher_is_better = True

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.reset()

    def reset(self) -> None:
        """Forget all items."""
        raise NotImplementedError

    def update(self, outputs: Any, target: Any) -> None:
        """Add a picture.

        Args:
            outputs: The model's outputs by name, or its only one.
            target: The target of an item in a folder with annotations.

        Raises:
            InputError: It comes from elsewhere, or belongs to another task.
        """
        if not isinstance(target, Target):
            raise InputError(
                f"the target is of type {type(target).__name__}, wanted a picture's annotation",
                hint="give a folder of pictures and annotations, and deploy the model with a task",
            )
        kind = type(target.task).__struct_config__.tag
        if kind != self._kind:
            raise InputError(f"it measures {self._kind}, and the artifact's task is {kind}")
        self.add(target.find(outputs), target)

    def add(self, found: Any, target: Target) -> None:
        """Add the result of ``postprocess`` for a picture."""
        raise NotImplementedError


def add_counts(one: NumpyArray, other: NumpyArray) -> NumpyArray:
    """The sum of two tables of counts, whose numbers of classes may differ."""
    total = np.zeros((len(one), max(one.shape[1], other.shape[1])), np.int64)
    total[:, : one.shape[1]] += one
    total[:, : other.shape[1]] += other
    return total
