"""A folder of pictures, with a folder for each class."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from enginebay.errors import InputError, nearest
from enginebay.images import pillow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from enginebay.images import Task

#: Endings of the files that are pictures.
SUFFIXES = frozenset(
    (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
)


class Pictures:
    """Pictures, each preprocessed when it is read, with the number of its class as target.

    The classes come in the order of their folders' names, and the pictures of each in the order
    of theirs; pictures that lie in no folder have no target.

    Attributes:
        task: How they become inputs; None where nobody has said it yet.
        targets: Which numbers the classes have: ``class names`` for those of the task, or
            ``sorted folders`` for the places of their folders in sorted order; empty where there
            are none, or the task is not known yet.
    """

    by_number = True

    def __init__(self, path: Path) -> None:
        pillow()
        self.description = f"'{path}'"
        self.targets = ""
        self.task: Task | None = None
        self._folders = sorted(
            entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith(".")
        )
        loose = [(file, None) for file in sorted(path.iterdir()) if _is_picture(file)]
        sorted_in = [
            (file, number)
            for number, folder in enumerate(self._folders)
            for file in sorted(folder.rglob("*"))
            if _is_picture(file)
        ]
        if loose and sorted_in:
            name = loose[0][0].name
            raise InputError(
                f"{self.description} holds pictures beside folders of pictures: '{name}'",
                hint="move each into the folder of its class",
            )
        if loose:
            self._folders = []
        self._files: list[tuple[Path, int | None]] = [*loose, *sorted_in]
        self.count: int | None = len(self._files)
        self._numbers: list[int] = []

    def for_task(self, task: Task) -> Pictures:
        """The same pictures, preprocessed for a task.

        Raises:
            InputError: A folder has not the name of a class.
        """
        other = copy(self)
        other.task = task
        if self._folders:
            other.targets, other._numbers = _numbered(
                [folder.name for folder in self._folders], task.classes, self.description
            )
        return other

    def read(self, indices: Sequence[int] | None) -> Iterator[Any]:
        """The input of each picture, and the number of its class."""
        if self.task is None:
            raise InputError(
                f"{self.description} holds pictures, and nothing says how one becomes an input",
                hint="deploy the model with a task that says it: --task FILE.json",
            )
        for index in range(len(self._files)) if indices is None else indices:
            file, folder = self._files[index]
            inputs = self.task.preprocess(file)
            yield inputs.get("", inputs), None if folder is None else self._numbers[folder]


def holds_pictures(path: Path) -> bool:
    """True where a folder, or a folder in it, holds a picture."""
    return any(_is_picture(file) for file in path.rglob("*"))


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def _numbered(
    folders: Sequence[str], classes: Sequence[str], description: str
) -> tuple[str, list[int]]:
    """Which numbers the folders' classes have, and these numbers."""
    unknown = [name for name in folders if name not in classes]
    # As torchvision's ImageFolder: datasets whose folders have codes for names rely on it.
    if not classes or (len(unknown) == len(folders) == len(classes)):
        return "sorted folders", list(range(len(folders)))
    if unknown:
        close = nearest(unknown[0], classes)
        raise InputError(
            f"{description} has a folder '{unknown[0]}', which is none of the task's "
            f"{len(classes)} classes",
            hint=f"did you mean '{close}'?" if close else "name the folders as the classes",
        )
    for name in folders:
        if list(classes).count(name) > 1:
            raise InputError(
                f"{description} has a folder '{name}', and two classes of the task are called so"
            )
    return "class names", [list(classes).index(name) for name in folders]
