"""A folder of pictures, with a folder for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import InputError
from enginebay_vision.truth.class_numbers import number_classes
from enginebay_vision.truth.files import SUFFIXES, find_pictures, is_picture

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


class Pictures:
    """Pictures as items: each is preprocessed when it is read, with its class's number as target.

    The classes come in the order of their folders' names, and the pictures of each in the order
    of theirs; pictures that lie in no folder have no target.

    Args:
        path: The folder.
        preprocess: Makes the model's input of a picture's file.
        classes: The names of the task's classes; empty where it has none.

    Attributes:
        targets: Which numbers the classes have: ``class names`` for those of the task, or
            ``sorted folders`` for the places of their folders in sorted order; empty where there
            are none.

    Raises:
        InputError: There are none, some lie beside folders, or a folder has not the name of a
            class.
    """

    def __init__(
        self,
        path: Path,
        preprocess: Callable[[Path], Mapping[str, Any]],
        classes: Sequence[str] = (),
    ) -> None:
        self.targets = ""
        self._preprocess = preprocess
        self._numbers: list[int] = []
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
                f"'{path}' holds no picture",
                hint=f"wanted files that end with {', '.join(sorted(SUFFIXES))}",
            )
        if loose and sorted_in:
            raise InputError(
                f"'{path}' holds pictures beside folders of pictures: '{loose[0][0].name}'",
                hint="move each into the folder of its class",
            )
        self._files: list[tuple[Path, int | None]] = [*loose, *sorted_in]
        if sorted_in:
            names = [folder.name for folder in folders]
            self.targets, self._numbers = number_classes(names, classes, f"'{path}'", "folder")

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[Any, int | None]:
        """The input of a picture, and the number of its class."""
        file, folder = self._files[index]
        inputs = self._preprocess(file)
        return inputs.get("", inputs), None if folder is None else self._numbers[folder]
