"""Images with annotations as items of a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay_vision.image_files import open_image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from enginebay.authors import NumpyArray


class Target(NamedTuple):
    """The annotation of an image, for the metrics ``vision:NAME``.

    Attributes:
        task: The task, which interprets a model's outputs.
        size: The image's width and height.
        truth: The annotation, in the form of the task's ``read_truth``.
    """

    task: Any
    size: tuple[int, int]
    truth: Any

    def find(self, outputs: Mapping[str, NumpyArray] | NumpyArray) -> Any:
        """Return the task's result for a model's outputs by name, or its only output."""
        # The only output of a detector has boxes followed by scores.
        name = getattr(self.task, "output", None) or getattr(self.task, "boxes", "")
        by_name = outputs if isinstance(outputs, dict) else {name: outputs}
        return self.task.postprocess(by_name, self.size)


class AnnotatedPictures:
    """Images as items: each is read and preprocessed with its annotation when it is used.

    Args:
        task: Makes the model's input of an image, and reads annotations.
        items: The pictures' files, each with its annotation; None for none.
    """

    def __init__(self, task: Any, items: Sequence[tuple[Path, Any]]) -> None:
        self._task = task
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> tuple[Any, Target | None]:
        """Return the input of an image, and its target."""
        file, annotation = self._items[index]
        picture, target = open_image(file), None
        if annotation is not None:
            picture, truth = self._task.read_truth(picture, annotation)
            target = Target(self._task, picture.size, truth)
        inputs = self._task.preprocess(picture)
        return inputs.get("", inputs), target
