"""A data set of images with annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay_vision.image_files import open_image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from enginebay.authors.arrays import NumpyArray


class Target(NamedTuple):
    """The target of an image, which the metrics ``vision:NAME`` compare with a model's outputs.

    Attributes:
        task: The task, which converts the model's outputs to results.
        size: The image's width and height in pixels.
        truth: The annotation, as the task's ``read_truth`` returns it.
    """

    task: Any
    size: tuple[int, int]
    truth: Any

    def postprocess_outputs(self, outputs: Mapping[str, NumpyArray] | NumpyArray) -> Any:
        """Convert a model's outputs (a dict by name, or the only output) to the task's results."""
        # The only output of a detector contains boxes followed by scores.
        name = getattr(self.task, "output", None) or getattr(self.task, "boxes", "")
        by_name = outputs if isinstance(outputs, dict) else {name: outputs}
        return self.task.postprocess(by_name, self.size)


class AnnotatedImages:
    """A data set of annotated images; an image and its annotation are read when requested.

    Args:
        task: The task, which reads annotations and preprocesses images.
        items: Pairs of an image file and its annotation; None for an image without annotation.
    """

    def __init__(self, task: Any, items: Sequence[tuple[Path, object]]) -> None:
        self._task = task
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(
        self, index: int
    ) -> tuple[NumpyArray | Mapping[str, NumpyArray], Target | None]:
        """Return the model's input for an image, and the image's target."""
        file, annotation = self._items[index]
        image, target = open_image(file), None
        if annotation is not None:
            # The part of the image that the annotation is about, such as one body.
            image, truth = self._task.read_truth(image, annotation)
            target = Target(self._task, image.size, truth)
        inputs = self._task.preprocess(image)
        # Before the task is fitted to a model, the input has no name: the array alone is returned.
        return inputs.get("", inputs), target
