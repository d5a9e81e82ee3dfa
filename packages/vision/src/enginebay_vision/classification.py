"""Image classification: finds the most probable classes of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from enginebay_vision.class_folders import ClassFolders
from enginebay_vision.drawing import paint_labels
from enginebay_vision.model_checks import check_classes
from enginebay_vision.outputs import Activation, apply_activation, read_finite
from enginebay_vision.results import RankedClass
from enginebay_vision.task import OneOutputTask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as PilImage

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray


class ImageClassification(OneOutputTask, frozen=True, kw_only=True, tag="image-classification"):
    """Image classification: the model computes a score for each class.

    Attributes:
        output: The output with a score for each class; empty for the model's first output.
        activation: The function that converts scores to probabilities: ``softmax``, ``sigmoid``, or
            ``none`` if they are probabilities already.
    """

    activation: Activation = "softmax"

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Raise a ``UsageError`` unless the output has a score for each class name."""
        # All axes after the batch: some classifiers end with pooled maps, N×C×1×1.
        check_classes(self.classes, output, dims[1:] or dims, extra=0)

    def preparation(self) -> object:
        """Return a value that is equal for tasks that prepare the same inputs and targets.

        A target is the annotation of an image.
        """
        # Only the class names, which number the folders: the activation changes no input.
        return msgspec.structs.replace(self.image, input="", dtype=""), self.classes

    def open_folder(self, path: Path) -> ClassFolders:
        """Return a data set of the images in a folder, with class indices as targets.

        Raises:
            InputError: The folder contains no images, or images next to the class folders, or a
                folder whose name is not a class.
        """
        return ClassFolders(path, self.preprocess, self.classes)

    def read_outputs(self, outputs: Mapping[str, NumpyArray], item: object) -> list[RankedClass]:  # noqa: ARG002  # the signature of every task
        """Return the five most probable classes of an image."""
        return self.postprocess(outputs)

    def postprocess(
        self,
        outputs: Mapping[str, NumpyArray],
        size: object = None,  # noqa: ARG002  # the signature of every task
        count: int = 5,
    ) -> list[RankedClass]:
        """Return the most probable classes of an image.

        Args:
            outputs: The model's outputs by name, for one image.
            size: Not used: classes do not depend on the size of the image.
            count: The maximum number of classes to return.

        Returns:
            The classes, the most probable first.

        Raises:
            InferenceError: The output is missing, or contains NaN or infinity.
        """
        scores = read_finite(outputs, self.output).reshape(-1)
        probabilities = apply_activation(scores, self.activation)
        # Stable: the order of classes with equal probabilities is the model's, on every machine.
        best = np.argsort(-probabilities, kind="stable")[:count]
        return [RankedClass(self.class_name(n), n, float(probabilities[n])) for n in map(int, best)]

    def paint_results(self, image: PilImage, results: Sequence[RankedClass]) -> PilImage:
        """Write the name and probability of the best class on an image; return the image."""
        labels = [(f"{best.name} {best.probability:.2f}", best.index) for best in results[:1]]
        return paint_labels(image, labels)
