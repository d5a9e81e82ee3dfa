"""A data set of images in one folder for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import InputError
from enginebay_vision.truth.class_numbers import number_classes
from enginebay_vision.truth.files import SUFFIXES, find_images, is_image_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from enginebay.authors.arrays import NumpyArray


class ClassFolders:
    """A data set of images in one folder per class; the target of an image is its class index.

    Images are in the order of the folder names, and then of the file names. An image is read and
    preprocessed when it is requested. Images without a class folder have no target.

    Args:
        path: The folder that contains the class folders, or images without classes.
        preprocess: The function that returns the model's input for an image file.
        classes: The names of the task's classes; empty if the task has none.

    Attributes:
        targets: How classes are numbered: ``class names`` if an index is a position in
            ``classes``, ``sorted folders`` if it is a position in the sorted folder names; empty
            without class folders.

    Raises:
        InputError: The folder contains no images, or images next to the class folders, or a folder
            whose name is not a class.
    """

    def __init__(
        self,
        path: Path,
        preprocess: Callable[[Path], Mapping[str, NumpyArray]],
        classes: Sequence[str] = (),
    ) -> None:
        self.targets = ""
        self._preprocess = preprocess
        self._class_indices: list[int] = []
        # Listed at once, so that a wrong folder is refused early.
        folders = sorted(
            entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith(".")
        )
        loose = [(file, None) for file in sorted(path.iterdir()) if is_image_file(file)]
        sorted_in = [
            (file, number) for number, folder in enumerate(folders) for file in find_images(folder)
        ]
        if not loose and not sorted_in:
            raise InputError(
                f"'{path}' contains no images",
                hint=f"expected files with the suffixes {', '.join(sorted(SUFFIXES))}",
            )
        if loose and sorted_in:  # empty folders next to images are allowed
            raise InputError(
                f"'{path}' contains folders of images, and images next to them: "
                f"'{loose[0][0].name}'",
                hint="move each image into the folder of its class",
            )
        self._files: list[tuple[Path, int | None]] = [*loose, *sorted_in]
        if sorted_in:
            names = [folder.name for folder in folders]
            self.targets, self._class_indices = number_classes(
                names, classes, f"'{path}'", "folder"
            )

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[NumpyArray | Mapping[str, NumpyArray], int | None]:
        """Return the model's input for an image, and the image's class index."""
        file, folder = self._files[index]
        inputs = self._preprocess(file)
        # Before the task is fitted to a model, the input has no name: the array alone is returned.
        return inputs.get("", inputs), None if folder is None else self._class_indices[folder]
