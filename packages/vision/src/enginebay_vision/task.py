"""The task: what a model is for, as data that a manifest keeps, and the pictures that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec

from enginebay_vision.drawing import check_drawing, save
from enginebay_vision.fitting import find_spec, fit_image
from enginebay_vision.image_input import ImageInput
from enginebay_vision.opening import open_image
from enginebay_vision.pixels import to_array
from enginebay_vision.truth.annotated import AnnotatedPictures
from enginebay_vision.truth.files import find_pictures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as Picture

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What a model of pictures is for.

    Attributes:
        image: How a picture becomes the model's input.
        classes: The classes' names, in the model's order; empty where nobody knows them.
    """

    image: ImageInput
    classes: tuple[str, ...] = ()

    def preprocess(self, image: Any) -> dict[str, NumpyArray]:
        """Make the model's input from a picture.

        Args:
            image: A path, or an image of Pillow's.

        Returns:
            The array by the input's name, as :func:`enginebay.load`'s wrapper takes it:
            ``1×C×H×W`` or ``1×H×W×C``.

        Raises:
            InputError: The picture cannot be read.
        """
        return {self.image.input: to_array(self.image, image)}

    def preparation(self) -> Any:
        """What makes an input and a target of a picture, without the input's name and dtype."""
        return msgspec.structs.replace(
            self, image=msgspec.structs.replace(self.image, input="", dtype="")
        )

    def open_folder(self, path: Path) -> Any:
        """The pictures in a folder as items, with what its annotations say as targets.

        Raises:
            InputError: There are none, or an annotation does not belong to a picture.
        """
        return AnnotatedPictures(self, self.find_items(path))

    def find_items(self, path: Path) -> list[tuple[Path, Any]]:
        """The pictures in a folder, each with its annotation, or None."""
        return [(file, None) for file in find_pictures(path)]

    def read_truth(self, picture: Picture, annotation: Any) -> tuple[Picture, Any]:
        """Read the annotation of a picture, as :meth:`find_items` found it.

        Returns:
            The part of the picture that the model gets, and its truth, as metrics take it.

        Raises:
            InputError: The annotation does not fit the picture or the task.
        """
        return picture, annotation

    def read_outputs(self, outputs: Mapping[str, NumpyArray], item: Any) -> Sequence[Any]:
        """Return what the model found in a picture: a path, or an image of Pillow's."""
        return self.postprocess(outputs, open_image(item).size)

    def postprocess(self, outputs: Mapping[str, NumpyArray], size: Any) -> Sequence[Any]:
        """Return what the model found.

        Args:
            outputs: The model's outputs by name, for one picture.
            size: The picture's width and height, in pixels, turned as its EXIF data say.

        Raises:
            InferenceError: An output is missing, has another shape, or holds numbers that are
                not finite.
        """
        raise NotImplementedError

    def check_drawing(self, path: Path) -> None:
        """Refuse a file that :meth:`draw` cannot write.

        Raises:
            UsageError: Its folder is missing, or Pillow writes no such file.
        """
        check_drawing(path)

    def draw(self, item: Any, found: Any, path: Path) -> None:
        """Write a picture with what was found in it.

        Args:
            item: The path of the picture, or an image of Pillow's.
            found: What ``postprocess`` returned.
            path: The file; an old one stays until the new one is complete.

        Raises:
            EnginebayError: It cannot be written.
        """
        save(self.paint(open_image(item).copy(), found), path)

    def paint(self, picture: Picture, found: Any) -> Picture:
        """Paint the result of ``postprocess`` on a picture, which may be changed."""
        raise NotImplementedError

    def class_name(self, index: int) -> str:
        """The name of a class; its number where the task has no name for it."""
        return self.classes[index] if 0 <= index < len(self.classes) else str(index)


class OneOutputTask(Task, frozen=True, kw_only=True):
    """A task that reads one output.

    Attributes:
        output: Its name; empty for the model's first.
    """

    output: str = ""

    def fit(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Self:
        """Check that the task fits a model, and fill in the names and the dtype that it left out.

        Raises:
            UsageError: It does not; the message says where.
        """
        image = fit_image(self.image, find_spec(self.image.input, inputs, "input"))
        output = find_spec(self.output, outputs, "output")
        if output.dims is not None:
            self.check_output(output, output.dims)
        return msgspec.structs.replace(self, image=image, output=output.name)

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Refuse an output whose dimensions do not fit, with a ``UsageError``."""
        raise NotImplementedError
