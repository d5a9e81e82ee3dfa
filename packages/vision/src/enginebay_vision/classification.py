"""Classification: from a network's numbers to the names of the most probable classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from enginebay_vision.fitting import check_classes, find_spec, fit_image
from enginebay_vision.found import RankedClass
from enginebay_vision.outputs import Activation, activated, numbers
from enginebay_vision.task import Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray


class ImageClassification(Task, frozen=True, kw_only=True, tag="image-classification"):
    """The model tells which class a picture belongs to.

    Attributes:
        output: The output with a number for each class; empty for the model's first.
        activation: What makes probabilities of these numbers: ``softmax``, ``sigmoid``, or
            ``none`` where they are probabilities.
    """

    output: str = ""
    activation: Activation = "softmax"

    def fit(
        self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
    ) -> ImageClassification:
        """Check that the task fits a model, and fill in the names and the dtype that it left out.

        Raises:
            UsageError: It does not; the message says where.
        """
        image = fit_image(self.image, find_spec(self.image.input, inputs, "input"))
        output = find_spec(self.output, outputs, "output")
        dims = output.dims or ()
        check_classes(self.classes, output, dims[1:] or dims, extra=0)
        return msgspec.structs.replace(self, image=image, output=output.name)

    def read_outputs(self, outputs: Mapping[str, NumpyArray], item: Any) -> list[RankedClass]:  # noqa: ARG002  # as every task's
        """Name the five most probable classes of a picture."""
        return self.postprocess(outputs)

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
