"""The task: what a model is for, as data that a manifest keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.images.image_input import ImageInput
from enginebay.images.pixels import to_array

if TYPE_CHECKING:
    from enginebay.tensors import NumpyArray


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
            MissingDependencyError: Pillow is not installed.
        """
        return {self.image.input: to_array(self.image, image)}

    def class_name(self, index: int) -> str:
        """The name of a class; its number where the task has no name for it."""
        return self.classes[index] if 0 <= index < len(self.classes) else str(index)
