"""The task: what a model is for, as data that a manifest keeps, and the pictures that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay_vision.drawing import check_drawing, draw
from enginebay_vision.image_input import ImageInput
from enginebay_vision.pictures import Pictures
from enginebay_vision.pixels import to_array

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
        """What makes an input and a target of a picture, without names and dtypes."""
        return msgspec.structs.replace(self.image, input="", dtype=""), self.classes

    def open_folder(self, path: Path) -> Pictures:
        """The pictures in a folder as items, with the numbers of their classes as targets.

        Raises:
            InputError: There are none, some lie beside folders, or a folder has not the name of a
                class.
        """
        return Pictures(path, self.preprocess, self.classes)

    def check_drawing(self, path: Path) -> None:
        """Refuse a file that :meth:`draw` cannot write.

        Raises:
            UsageError: Its folder is missing, or Pillow writes no such file.
        """
        check_drawing(path)

    def draw(self, item: Any, found: Sequence[Any], path: Path) -> None:
        """Write a picture with boxes and their names, or with the name of its best class.

        Args:
            item: The path of the picture, or an image of Pillow's.
            found: What ``postprocess`` returned.
            path: The file; an old one stays until the new one is complete.

        Raises:
            EnginebayError: It cannot be written.
        """
        draw(item, found, path)

    def class_name(self, index: int) -> str:
        """The name of a class; its number where the task has no name for it."""
        return self.classes[index] if 0 <= index < len(self.classes) else str(index)
