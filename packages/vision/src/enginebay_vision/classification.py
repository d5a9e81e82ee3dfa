"""Classification: the most probable classes of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from enginebay_vision.class_folders import Pictures
from enginebay_vision.drawing import paint_labels
from enginebay_vision.model_checks import check_classes
from enginebay_vision.outputs import Activation, apply_activation, read_finite
from enginebay_vision.results import RankedClass
from enginebay_vision.task import OneOutputTask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as Picture

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray


class ImageClassification(OneOutputTask, frozen=True, kw_only=True, tag="image-classification"):
    """The model classifies an image.

    Attributes:
        output: The output with a number for each class; empty for the model's first.
        activation: The function that converts the numbers to probabilities: ``softmax``,
            ``sigmoid``, or ``none`` if they are probabilities already.
    """

    activation: Activation = "softmax"

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Check that the output has a number for each class name."""
        check_classes(self.classes, output, dims[1:] or dims, extra=0)

    def preparation(self) -> Any:
        """Return the settings that determine inputs and targets, without names and dtypes."""
        return msgspec.structs.replace(self.image, input="", dtype=""), self.classes

    def open_folder(self, path: Path) -> Pictures:
        """Return the images in a folder as items, with class indices as targets.

        Raises:
            InputError: There are no images, there are both images and folders, or the name of a
                folder is not a class.
        """
        return Pictures(path, self.preprocess, self.classes)

    def read_outputs(self, outputs: Mapping[str, NumpyArray], item: Any) -> list[RankedClass]:  # noqa: ARG002  # the signature of every task
        """Return the five most probable classes of an image."""
        return self.postprocess(outputs)

    def postprocess(
        self,
        outputs: Mapping[str, NumpyArray],
        size: Any = None,  # noqa: ARG002  # the signature of every task
        count: int = 5,
    ) -> list[RankedClass]:
        """Return the most probable classes.

        Args:
            outputs: The model's outputs by name, for one image.
            size: The size of the image; not used.
            count: The number of classes.

        Returns:
            The classes, best first.

        Raises:
            InferenceError: The output is missing, or contains NaN or infinity.
        """
        odds = apply_activation(read_finite(outputs, self.output).reshape(-1), self.activation)
        best = np.argsort(-odds, kind="stable")[:count]
        return [RankedClass(self.class_name(n), n, float(odds[n])) for n in map(int, best)]

    def paint(self, picture: Picture, found: Sequence[RankedClass]) -> Picture:
        """Write the name of the best class on an image."""
        labels = [(f"{ranked.name} {ranked.probability:.2f}", ranked.index) for ranked in found[:1]]
        return paint_labels(picture, labels)
