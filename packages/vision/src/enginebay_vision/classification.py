"""Classification: from a network's numbers to the names of the most probable classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from enginebay_vision.drawing import paint_labels
from enginebay_vision.fitting import check_classes
from enginebay_vision.found import RankedClass
from enginebay_vision.outputs import Activation, activated, numbers
from enginebay_vision.pictures import Pictures
from enginebay_vision.task import OneOutputTask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as Picture

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray


class ImageClassification(OneOutputTask, frozen=True, kw_only=True, tag="image-classification"):
    """The model tells which class a picture belongs to.

    Attributes:
        output: The output with a number for each class; empty for the model's first.
        activation: What makes probabilities of these numbers: ``softmax``, ``sigmoid``, or
            ``none`` where they are probabilities.
    """

    activation: Activation = "softmax"

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Compare the number of names with that of the output's numbers."""
        check_classes(self.classes, output, dims[1:] or dims, extra=0)

    def preparation(self) -> Any:
        """What makes an input and a target of a picture, without names and dtypes."""
        return msgspec.structs.replace(self.image, input="", dtype=""), self.classes

    def open_folder(self, path: Path) -> Pictures:
        """The pictures in a folder as items, with the numbers of their classes as targets.

        Raises:
            InputError: There are none, some lie beside folders, or a folder has not the name of a
                class.
        """
        return Pictures(path, self.preprocess, self.classes)

    def read_outputs(self, outputs: Mapping[str, NumpyArray], item: Any) -> list[RankedClass]:  # noqa: ARG002  # as every task's
        """Name the five most probable classes of a picture."""
        return self.postprocess(outputs)

    def postprocess(
        self,
        outputs: Mapping[str, NumpyArray],
        size: Any = None,  # noqa: ARG002  # as every task's
        count: int = 5,
    ) -> list[RankedClass]:
        """Name the most probable classes.

        Args:
            outputs: The model's outputs by name, for one picture.
            size: Of the picture; it does not matter here.
            count: How many classes.

        Returns:
            The best first.

        Raises:
            InferenceError: The output is missing, or holds numbers that are not finite.
        """
        odds = activated(numbers(outputs, self.output).reshape(-1), self.activation)
        best = np.argsort(-odds, kind="stable")[:count]
        return [RankedClass(self.class_name(n), n, float(odds[n])) for n in map(int, best)]

    def paint(self, picture: Picture, found: Sequence[RankedClass]) -> Picture:
        """Write the name of the best class on a picture."""
        labels = [(f"{one.name} {one.probability:.2f}", one.index) for one in found[:1]]
        return paint_labels(picture, labels)
