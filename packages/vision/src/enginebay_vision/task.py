"""The base classes of tasks: preprocessing and postprocessing as data in a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec

from enginebay_vision.drawing import check_drawing, save_image
from enginebay_vision.image_files import open_image
from enginebay_vision.image_input import ImageInput
from enginebay_vision.model_checks import find_spec, fit_image
from enginebay_vision.pixels import make_input_array
from enginebay_vision.truth.annotated import AnnotatedPictures
from enginebay_vision.truth.files import find_pictures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as Picture

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """The task of a model for images.

    Attributes:
        image: The preprocessing of an image.
        classes: The class names in the model's order; empty if they are unknown.
    """

    image: ImageInput
    classes: tuple[str, ...] = ()

    def preprocess(self, image: Any) -> dict[str, NumpyArray]:
        """Compute the model's input from an image.

        Args:
            image: A path, or an image of Pillow's.

        Returns:
            The array by the input's name, for the wrapper of :func:`enginebay.load`:
            ``1×C×H×W`` or ``1×H×W×C``.

        Raises:
            InputError: The image cannot be read.
        """
        return {self.image.input: make_input_array(self.image, image)}

    def preparation(self) -> Any:
        """Return the settings that determine inputs and targets, without name and dtype."""
        return msgspec.structs.replace(
            self, image=msgspec.structs.replace(self.image, input="", dtype="")
        )

    def open_folder(self, path: Path) -> Any:
        """Return the images in a folder as items, with their annotations as targets.

        Raises:
            InputError: There are no images, or an annotation has no image.
        """
        return AnnotatedPictures(self, self.find_items(path))

    def find_items(self, path: Path) -> list[tuple[Path, Any]]:
        """Return the images in a folder, each with its annotation or None."""
        return [(file, None) for file in find_pictures(path)]

    def read_truth(self, picture: Picture, annotation: Any) -> tuple[Picture, Any]:
        """Read the annotation of an image, in the form of :meth:`find_items`.

        Returns:
            The part of the image for the model, and its annotation in the form for metrics.

        Raises:
            InputError: The annotation does not fit the image or the task.
        """
        return picture, annotation

    def read_outputs(self, outputs: Mapping[str, NumpyArray], item: Any) -> Sequence[Any]:
        """Return the results for an image, which is a path or an image of Pillow's."""
        return self.postprocess(outputs, open_image(item).size)

    def postprocess(self, outputs: Mapping[str, NumpyArray], size: Any) -> Sequence[Any]:
        """Convert the model's outputs to results.

        Args:
            outputs: The model's outputs by name, for one image.
            size: The image's width and height, in pixels, rotated according to its EXIF data.

        Raises:
            InferenceError: An output is missing, has the wrong shape, or contains NaN or infinity.
        """
        raise NotImplementedError

    def check_drawing(self, path: Path) -> None:
        """Check that :meth:`draw` can write a file.

        Raises:
            UsageError: The folder is missing, or Pillow cannot write the format.
        """
        check_drawing(path)

    def draw(self, item: Any, found: Any, path: Path) -> None:
        """Write an image with the results drawn on it.

        Args:
            item: The path of the image, or an image of Pillow's.
            found: The result of ``postprocess``.
            path: The file, which is written atomically.

        Raises:
            EnginebayError: The file cannot be written.
        """
        save_image(self.paint(open_image(item).copy(), found), path)

    def paint(self, picture: Picture, found: Any) -> Picture:
        """Paint the result of ``postprocess`` on an image, which may be changed."""
        raise NotImplementedError

    def class_name(self, index: int) -> str:
        """Return the name of a class; its index if the task has no name for it."""
        return self.classes[index] if 0 <= index < len(self.classes) else str(index)


class OneOutputTask(Task, frozen=True, kw_only=True):
    """A task that reads one output.

    Attributes:
        output: The name of the output; empty for the model's first.
    """

    output: str = ""

    def fit(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Self:
        """Check that the task fits a model, and fill in missing names and dtypes.

        Raises:
            UsageError: The task does not fit; the message says why.
        """
        image = fit_image(self.image, find_spec(self.image.input, inputs, "input"))
        output = find_spec(self.output, outputs, "output")
        if output.dims is not None:
            self.check_output(output, output.dims)
        return msgspec.structs.replace(self, image=image, output=output.name)

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Check the dimensions of the output; raise ``UsageError`` if they do not fit."""
        raise NotImplementedError
