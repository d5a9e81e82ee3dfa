"""Object detection: finds boxes around the objects in an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import msgspec
import numpy as np

from enginebay.errors import InferenceError, UsageError
from enginebay_vision.drawing import paint_boxes
from enginebay_vision.model_checks import check_classes, find_spec, fit_image
from enginebay_vision.outputs import Activation, apply_activation, read_finite, read_output
from enginebay_vision.results import Box
from enginebay_vision.suppression import Suppression  # noqa: TC001  # msgspec reads it
from enginebay_vision.task import Task
from enginebay_vision.truth.annotated import AnnotatedImages
from enginebay_vision.truth.boxes import find_annotated_boxes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as PilImage

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray

#: The lowest score of boxes for metrics, even if the task's threshold is higher: average precision
#: also counts the objects that only boxes with low scores find.
_METRIC_THRESHOLD = 0.001


class Selection(NamedTuple):
    """The detected objects of an image, the highest score first.

    Attributes:
        rows: ``N``: for each object the index of its box among all boxes of the output.
        corners: ``N×4``: left, top, right and bottom in pixels of the image, not clipped to it.
        classes: ``N``: the class index of each object.
        scores: ``N``: the score of each object.
        extra: ``M×k``: for all boxes of the output, the columns after coordinates and scores.
    """

    rows: NumpyArray
    corners: NumpyArray
    classes: NumpyArray
    scores: NumpyArray
    extra: NumpyArray


class ObjectDetection(Task, frozen=True, kw_only=True, tag="object-detection"):
    """Object detection: the model finds boxes around objects, with scores and classes.

    Attributes:
        boxes: The output with four coordinates for each box; empty for the model's first output.
        scores: The output with one score for each box or, if ``labels`` is empty, for each box and
            class. If there is one score more than classes, the last score means "no object". Empty
            if the scores follow the four coordinates in the output ``boxes``.
        labels: The output with the class index of each box; empty without such an output.
        columns: True if the output ``boxes`` has a column for each box, ``(4 + classes)×boxes``, as
            in models of ultralytics. Requires an empty ``scores``.
        box_form: ``xyxy``: left, top, right, bottom; ``cxcywh``: centre, width and height.
        normalised: True if coordinates are relative to the size of the network's input, from 0 to
            1; False if they are pixels of the network's input.
        activation: The function that converts the model's scores to scores from 0 to 1:
            ``softmax``, ``sigmoid`` or ``none``.
        threshold: The minimum score of a detected object.
        every_class: True to return a box once for each class with a score of at least
            ``threshold``, as in torchvision and MMDetection; False to return a box only for the
            class with the largest score. True requires an empty ``labels``.
        nms: The non-maximum suppression that the task applies; None for a model that includes it.
    """

    boxes: str = "boxes"
    scores: str = "scores"
    labels: str = "labels"
    columns: bool = False
    box_form: Literal["xyxy", "cxcywh"] = "xyxy"
    normalised: bool = False
    activation: Activation = "none"
    threshold: float = 0.5
    every_class: bool = False
    nms: Suppression | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise UsageError(f"'threshold' is {self.threshold:g}; expected a number from 0 to 1")
        if self.labels and self.activation == "softmax":
            raise UsageError(
                "activation 'softmax' cannot be combined with 'labels': softmax requires a score "
                "for each class",
                hint="set labels='', or use another activation",
            )
        if self.columns and self.scores:
            raise UsageError(
                "'columns' and 'scores' cannot be combined: with 'columns', the output of 'boxes' "
                "contains the scores",
                hint="set scores='', or columns=False",
            )
        if self.labels and self.every_class:
            raise UsageError(
                "'every_class' cannot be combined with 'labels', which has only one class per box",
                hint="set labels='', or every_class=False",
            )

    def fit(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Self:
        """Return a copy of the task; empty names and dtypes are replaced by the model's.

        Raises:
            UsageError: The task does not fit the model.
        """
        image = fit_image(self.image, find_spec(self.image.input, inputs, "input"))
        boxes = find_spec(self.boxes, outputs, "output")
        scores = find_spec(self.scores, outputs, "output") if self.scores else boxes
        if self.labels:
            find_spec(self.labels, outputs, "output")
        extra = self.count_extra_columns(outputs)
        if extra is not None:
            self._check_columns(boxes, scores, extra)
        return msgspec.structs.replace(self, image=image, boxes=boxes.name)

    def count_extra_columns(self, outputs: Sequence[TensorSpec]) -> int | None:  # noqa: ARG002  # for masks
        """Return how many columns after coordinates and scores ``boxes`` has; None if unknown."""
        return 0

    def _check_columns(self, boxes: TensorSpec, scores: TensorSpec, extra: int) -> None:
        dims = boxes.dims or ("any",)  # without a known rank, nothing can be checked
        size = dims[-2:][0] if self.columns else dims[-1]
        counts = (scores.dims or ())[-1:]
        if isinstance(size, int):
            score_count = size - 4 - extra
            expected = score_count == 1 if self.labels else score_count > 0
            if not (score_count == 0 if self.scores else expected):
                also = "" if self.scores else ", followed by scores"
                also += f", followed by {extra} coefficients of a mask" if extra else ""
                raise UsageError(
                    f"the task expects four numbers for each box{also}, but the output is "
                    f"{boxes.describe()}"
                )
            counts = counts if self.scores else (score_count,)
        if not self.labels:
            # One more than the classes: DETR's models have a score for "no object".
            check_classes(self.classes, scores, counts, extra=1)

    def open_folder(self, path: Path) -> AnnotatedImages:
        """Return a data set of the images in a folder, with annotated boxes as targets."""
        threshold = min(self.threshold, _METRIC_THRESHOLD)
        task = msgspec.structs.replace(self, threshold=threshold)
        return AnnotatedImages(task, self.find_items(path))

    def find_items(self, path: Path) -> Sequence[tuple[Path, object]]:
        """Return pairs (image file, annotated boxes); without annotations, (image file, None)."""
        boxes = find_annotated_boxes(path, self.classes)
        return super().find_items(path) if boxes is None else boxes

    def postprocess(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]
    ) -> Sequence[Box]:
        """Return the detected objects, the highest score first."""
        return list(self.make_boxes(self.select_objects(outputs, size), size))

    def make_boxes(self, found: Selection, size: tuple[int, int]) -> Iterator[Box]:
        """Yield the box of each object, clipped to the image."""
        # Clipped after the suppression, as in the models: clipping changes overlaps.
        corners = np.clip(found.corners, 0, [*size, *size])
        rows = (found.classes.tolist(), found.scores.tolist(), corners.tolist())
        for index, score, edges in zip(*rows, strict=True):
            yield Box(self.class_name(index), index, score, *edges)

    def select_objects(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int], extra: int = 0
    ) -> Selection:
        """Select the boxes whose scores are high enough, without those that are suppressed.

        Args:
            outputs: The model's outputs by name, for one image.
            size: The image's width and height in pixels.
            extra: The number of columns of the output ``boxes`` that are neither coordinates nor
                scores; they are the last ones.
        """
        values = read_finite(outputs, self.boxes)
        values = values.T if self.columns else values
        count = (values.shape[-1] or 4 + extra) - extra
        if values.size and (count != 4 if self.scores else count < 5):
            also = f" and {extra} coefficients of a mask" if extra else ""
            raise InferenceError(
                f"output '{self.boxes}' has the shape {values.shape}; expected four numbers per box"
                f"{also}"
            )
        rows = values.reshape(-1, count + extra)
        corners = self._image_corners(rows[:, :4], size)
        scores, classes = self._class_scores(outputs, rows[:, 4:count])
        if not len(corners) == len(scores) == len(classes):
            raise InferenceError(
                f"found {len(corners)} boxes, {len(scores)} scores and {len(classes)} classes; "
                "expected equal numbers"
            )
        boxes, columns = np.nonzero(scores >= self.threshold)
        # Stable: the order of boxes with equal scores is the model's, on every machine.
        order = np.argsort(-scores[boxes, columns], kind="stable")
        boxes, columns = boxes[order], columns[order]
        if self.nms is not None:
            selected = self.nms.keep(corners[boxes], classes[boxes, columns])
            boxes, columns = boxes[selected], columns[selected]
        return Selection(
            boxes,
            corners[boxes],
            classes[boxes, columns],
            scores[boxes, columns],
            rows[:, count:],
        )

    def paint_results(self, image: PilImage, results: Any) -> PilImage:
        """Paint boxes with class names and scores on an image; return the image."""
        return paint_boxes(image, results)

    def _image_corners(self, boxes: NumpyArray, size: tuple[int, int]) -> NumpyArray:
        """Convert boxes to left, top, right and bottom in pixels of the image, without clipping."""
        placed = self.image.place(*size)
        if self.box_form == "cxcywh":
            middle, half = boxes[:, :2], boxes[:, 2:] / 2
            boxes = np.concatenate([middle - half, middle + half], axis=1)
        if self.normalised:
            boxes = boxes * [placed.width, placed.height, placed.width, placed.height]
        return placed.to_image(boxes.reshape(-1, 2, 2)).reshape(-1, 4)

    def _class_scores(
        self, outputs: Mapping[str, NumpyArray], score_columns: NumpyArray
    ) -> tuple[NumpyArray, NumpyArray]:
        """Return scores and class indices; both arrays have the same shape.

        The shape is ``boxes×classes`` if ``every_class`` is True, and ``boxes×1`` otherwise.
        """
        values = read_finite(outputs, self.scores) if self.scores else score_columns
        if self.labels:
            labels = read_output(outputs, self.labels).reshape(-1, 1).astype(np.int64)
            return apply_activation(values.reshape(-1, 1), self.activation), labels
        scores = apply_activation(values.reshape(-1, values.shape[-1]), self.activation)
        if self.classes:
            scores = scores[:, : len(self.classes)]  # without the entry for "no object"
        if self.every_class:
            return scores, np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
        return scores.max(axis=1, keepdims=True), scores.argmax(axis=1)[:, None]
