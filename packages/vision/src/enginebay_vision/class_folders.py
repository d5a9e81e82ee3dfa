"""Folders of images, one for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import InputError
from enginebay_vision.truth.class_numbers import number_classes
from enginebay_vision.truth.files import SUFFIXES, find_pictures, is_picture

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


class Pictures:
    """Images as items: each is preprocessed when it is read, with its class index as target.

    Classes are in the order of their folders' names, and the images of a class in the order of
    their names. Images that are not in a folder have no target.

    Args:
        path: The folder.
        preprocess: Returns the model's input for an image file.
        classes: The names of the task's classes; empty if it has none.

    Attributes:
        targets: The meaning of class indices: ``class names`` for the task's classes, or
            ``sorted folders`` for positions in the sorted folders; empty without targets.

    Raises:
        InputError: There are no images, there are both images and folders, or the name of a
            folder is not a class.
    """

    def __init__(
        self,
        path: Path,
        preprocess: Callable[[Path], Mapping[str, Any]],
        classes: Sequence[str] = (),
    ) -> None:
        self.targets = ""
        self._preprocess = preprocess
        self._normalise_pixels: list[int] = []
        folders = sorted(
            entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith(".")
        )
        loose = [(file, None) for file in sorted(path.iterdir()) if is_picture(file)]
        sorted_in = [
            (file, number)
            for number, folder in enumerate(folders)
            for file in find_pictures(folder)
        ]
        if not loose and not sorted_in:
            raise InputError(
                f"'{path}' contains no images",
                hint=f"expected files with the suffixes {', '.join(sorted(SUFFIXES))}",
            )
        if loose and sorted_in:
            raise InputError(
                f"'{path}' contains folders of images, and images next to them: "
                f"'{loose[0][0].name}'",
                hint="move each into the folder of its class",
            )
        self._files: list[tuple[Path, int | None]] = [*loose, *sorted_in]
        if sorted_in:
            names = [folder.name for folder in folders]
            self.targets, self._normalise_pixels = number_classes(
                names, classes, f"'{path}'", "folder"
            )

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[Any, int | None]:
        """Return the input of an image, and its class index."""
        file, folder = self._files[index]
        inputs = self._preprocess(file)
        return inputs.get("", inputs), None if folder is None else self._normalise_pixels[folder]
