"""Classification: from a network's numbers to the names of the most probable classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from enginebay.images.outputs import Activation, activated, numbers
from enginebay.images.task import Task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.tensors import NumpyArray


class RankedClass(msgspec.Struct, frozen=True):
    """A class that a picture may belong to.

    Attributes:
        name: Its name; its number where the task has no names.
        index: Its number.
        probability: From 0 to 1.
    """

    name: str
    index: int
    probability: float


class ImageClassification(Task, frozen=True, kw_only=True, tag="image-classification"):
    """The model tells which class a picture belongs to.

    Attributes:
        output: The output with a number for each class; empty for the model's first.
        activation: What makes probabilities of these numbers: ``softmax``, ``sigmoid``, or
            ``none`` where they are probabilities.
    """

    output: str = ""
    activation: Activation = "softmax"

    def postprocess(self, outputs: Mapping[str, NumpyArray], count: int = 5) -> list[RankedClass]:
        """Name the most probable classes.

        Args:
            outputs: The model's outputs by name, for one picture.
            count: How many classes.

        Returns:
            The best first.

        Raises:
            InferenceError: The output is missing, or holds numbers that are not finite.
        """
        odds = activated(numbers(outputs, self.output).reshape(-1), self.activation)
        best = np.argsort(-odds, kind="stable")[:count]
        return [RankedClass(self.class_name(n), n, float(odds[n])) for n in map(int, best)]
