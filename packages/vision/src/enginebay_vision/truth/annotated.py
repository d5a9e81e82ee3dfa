"""Pictures with annotations as items of a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay_vision.opening import open_image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from enginebay.authors import NumpyArray


class Target(NamedTuple):
    """The truth about a picture, for the metrics ``vision:NAME``.

    Attributes:
        task: Reads a model's outputs for the picture.
        size: The picture's width and height.
        truth: The annotation, as the task's ``read_truth`` returned it.
    """

    task: Any
    size: tuple[int, int]
    truth: Any

    def find(self, outputs: Mapping[str, NumpyArray] | NumpyArray) -> Any:
        """Return the result of the task for a model's outputs by name, or its only one."""
        # A detector whose only output has the scores behind the boxes.
        only = getattr(self.task, "output", None) or getattr(self.task, "boxes", "")
        named = outputs if isinstance(outputs, dict) else {only: outputs}
        return self.task.postprocess(named, self.size)


class AnnotatedPictures:
    """Pictures as items: each is read and preprocessed, with its annotation, when it is used.

    Args:
        task: Makes the model's input of a picture, and reads annotations.
        items: The pictures' files, each with its annotation; None for none.
    """

    def __init__(self, task: Any, items: Sequence[tuple[Path, Any]]) -> None:
        self._task = task
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> tuple[Any, Target | None]:
        """The input of a picture, and its target."""
        file, annotation = self._items[index]
        picture, target = open_image(file), None
        if annotation is not None:
            picture, truth = self._task.read_truth(picture, annotation)
            target = Target(self._task, picture.size, truth)
        inputs = self._task.preprocess(picture)
        return inputs.get("", inputs), target
