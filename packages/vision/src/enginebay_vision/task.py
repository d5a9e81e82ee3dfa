"""The base classes of image tasks; the fields of a task are recorded in the artifact's manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec

from enginebay_vision.drawing import check_drawing, save_image
from enginebay_vision.image_files import open_image
from enginebay_vision.image_input import ImageInput
from enginebay_vision.model_checks import find_spec, fit_image
from enginebay_vision.pixels import make_input_array
from enginebay_vision.truth.annotated import AnnotatedImages
from enginebay_vision.truth.files import find_images

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as PilImage

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray
    from enginebay_vision.class_folders import ClassFolders
    from enginebay_vision.image_files import ImageSource


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """Base class of image tasks: the preprocessing and postprocessing of a model.

    Attributes:
        image: The preprocessing of an image.
        classes: The class names in the model's order; empty if they are unknown.
    """

    image: ImageInput
    classes: tuple[str, ...] = ()

    def preprocess(self, image: ImageSource) -> dict[str, NumpyArray]:
        """Compute the model's input from an image.

        Args:
            image: The path of an image file, or a ``PIL.Image.Image``.

        Returns:
            A dict with one array, ``1×C×H×W`` or ``1×H×W×C``, whose key is the input's name. The
            wrapper that :func:`enginebay.load` returns takes this dict as its argument.

        Raises:
            InputError: The image cannot be read.
        """
        return {self.image.input: make_input_array(self.image, image)}

    def preparation(self) -> object:
        """Return a value that is equal for tasks that prepare the same inputs and targets.

        A target is the annotation of an image.
        """
        # Without the input's name and dtype, which may differ between two models.
        image = msgspec.structs.replace(self.image, input="", dtype="")
        return msgspec.structs.replace(self, image=image)

    def open_folder(self, path: Path) -> AnnotatedImages | ClassFolders:
        """Return a data set of the images in a folder, with annotations as targets.

        Raises:
            InputError: The folder contains no images, or an annotation without an image.
        """
        return AnnotatedImages(self, self.find_items(path))

    def find_items(self, path: Path) -> Sequence[tuple[Path, object]]:
        """Return pairs (image file, annotation); without annotations, (image file, None)."""
        return [(file, None) for file in find_images(path)]

    def read_truth(self, image: PilImage, annotation: Any) -> tuple[PilImage, object]:
        """Convert an annotation from :meth:`find_items` to the form that metrics expect.

        Returns:
            The part of the image that the model gets, and the converted annotation.

        Raises:
            InputError: The annotation does not fit the image or the task.
        """
        return image, annotation

    def read_outputs(
        self, outputs: Mapping[str, NumpyArray], item: ImageSource
    ) -> Sequence[object]:
        """Convert the model's outputs for an image to results, such as boxes or class names."""
        return self.postprocess(outputs, open_image(item).size)

    def postprocess(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]
    ) -> Sequence[object]:
        """Convert the model's outputs to results, such as boxes or class names.

        Args:
            outputs: The model's outputs by name, for one image.
            size: The image's width and height in pixels, after the rotation by its EXIF data.

        Raises:
            InferenceError: An output is missing, has the wrong shape, or contains NaN or infinity.
        """
        raise NotImplementedError

    def check_drawing(self, path: Path) -> None:
        """Check that :meth:`draw` can write this file.

        Raises:
            UsageError: The folder is missing, or Pillow cannot write the format.
        """
        check_drawing(path)

    def draw(self, item: ImageSource, found: object, path: Path) -> None:
        """Draw results on an image, and write the drawing to a file.

        Args:
            item: The path of the image, or a ``PIL.Image.Image``, which is not changed.
            found: The results of :meth:`postprocess`.
            path: The file, which is written atomically.

        Raises:
            EnginebayError: The file cannot be written.
        """
        # A copy: the caller's image would get the drawing.
        save_image(self.paint_results(open_image(item).copy(), found), path)

    def paint_results(self, image: PilImage, results: Any) -> PilImage:
        """Paint the results on the image or on a copy, and return the painted image."""
        raise NotImplementedError

    def class_name(self, index: int) -> str:
        """Return the name of a class; the index as text if the task has no name for the class."""
        return self.classes[index] if 0 <= index < len(self.classes) else str(index)


class OneOutputTask(Task, frozen=True, kw_only=True):
    """Base class of tasks that read a single output of the model.

    Attributes:
        output: The name of the output; empty for the model's first output.
    """

    output: str = ""

    def fit(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Self:
        """Return a copy of the task; empty names and dtypes are replaced by the model's.

        Raises:
            UsageError: The task does not fit the model.
        """
        image = fit_image(self.image, find_spec(self.image.input, inputs, "input"))
        output = find_spec(self.output, outputs, "output")
        if output.dims is not None:  # the rank is known
            self.check_output(output, output.dims)
        return msgspec.structs.replace(self, image=image, output=output.name)

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Raise a ``UsageError`` unless the dimensions of the output fit the task."""
        raise NotImplementedError
