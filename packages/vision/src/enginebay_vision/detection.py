"""Object detection: boxes around objects in an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from enginebay.errors import InferenceError, UsageError
from enginebay_vision.drawing import paint_boxes
from enginebay_vision.model_checks import check_classes, find_spec, fit_image
from enginebay_vision.outputs import Activation, apply_activation, read_finite, read_output
from enginebay_vision.results import Box
from enginebay_vision.suppression import Suppression  # noqa: TC001  # msgspec reads it
from enginebay_vision.task import Task
from enginebay_vision.truth.annotated import AnnotatedPictures
from enginebay_vision.truth.boxes import find_boxes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as Picture

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray

#: Metrics use boxes from this score on, whatever the threshold: average precision needs them.
_METRIC_THRESHOLD = 0.001


class ObjectDetection(Task, frozen=True, kw_only=True, tag="object-detection"):
    """The model detects objects in an image.

    Attributes:
        boxes: The output with four numbers for each box; empty for the model's first.
        scores: The output with one score for each box; or, without ``labels``, with one for each
            box and class, of which the largest is used. An additional last entry means "no
            object". Empty if the scores follow the four numbers in the output of the boxes.
        labels: The output with the class index of each box; empty if there is none.
        columns: True if each box is a column, ``(4 + classes)×boxes``, as in models of
            ultralytics. Only without ``scores``.
        box_form: ``xyxy``: left, top, right, bottom; ``cxcywh``: centre, width and height.
        normalised: True if coordinates are relative to the size of the network's input; False if
            they are in its pixels.
        activation: The function that converts numbers to scores from 0 to 1: ``softmax``,
            ``sigmoid`` or ``none``.
        threshold: The minimum score of a box.
        every_class: True if a box is an object of each class with a high enough score, as in
            torchvision and MMDetection; False if only of its best class. Only without ``labels``.
        nms: The non-maximum suppression; None if the model includes it.
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
            raise UsageError(f"threshold is {self.threshold:g}; expected a number from 0 to 1")
        if self.labels and self.activation == "softmax":
            raise UsageError(
                "softmax cannot be combined with labels: it requires a score for each class",
                hint="labels='', or another activation",
            )
        if self.columns and self.scores:
            raise UsageError(
                "columns cannot be combined with scores: it is for scores in the boxes' output",
                hint="scores='', or columns=False",
            )
        if self.labels and self.every_class:
            raise UsageError(
                "every_class cannot be combined with labels: it requires a score for each class",
                hint="labels='', or every_class=False",
            )

    def fit(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> ObjectDetection:
        """Check that the task fits a model, and fill in missing names and dtypes.

        Raises:
            UsageError: The task does not fit; the message says why.
        """
        image = fit_image(self.image, find_spec(self.image.input, inputs, "input"))
        boxes = find_spec(self.boxes, outputs, "output")
        scores = find_spec(self.scores, outputs, "output") if self.scores else boxes
        if self.labels:
            find_spec(self.labels, outputs, "output")
        self._check_columns(boxes, scores)
        return msgspec.structs.replace(self, image=image, boxes=boxes.name)

    def _check_columns(self, boxes: TensorSpec, scores: TensorSpec) -> None:
        dims = boxes.dims or ("any",)
        size = dims[-2:][0] if self.columns else dims[-1]
        counts = (scores.dims or ())[-1:]
        if isinstance(size, int):
            more = size - 4
            fits = more == 0 if self.scores else more == 1 if self.labels else more > 0
            if not fits:
                also = "" if self.scores else ", followed by scores"
                raise UsageError(
                    f"the task expects four numbers for each box{also}, but the output is "
                    f"{boxes.describe()}"
                )
            counts = counts if self.scores else (more,)
        if not self.labels:
            check_classes(self.classes, scores, counts, extra=1)

    def open_folder(self, path: Path) -> Any:
        """Return the images in a folder, with the boxes of their annotations as targets."""
        least = min(self.threshold, _METRIC_THRESHOLD)
        task = msgspec.structs.replace(self, threshold=least)
        return AnnotatedPictures(task, self.find_items(path))

    def find_items(self, path: Path) -> list[tuple[Path, Any]]:
        """Return images with boxes in COCO's or VOC's format."""
        boxes = find_boxes(path, self.classes)
        return super().find_items(path) if boxes is None else list(boxes)

    def postprocess(self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]) -> list[Box]:
        """Return the detected objects.

        Returns:
            Boxes in pixels of the image, best first.
        """
        found = read_finite(outputs, self.boxes)
        found = found.T if self.columns else found
        if found.size and (found.shape[-1] != 4 if self.scores else found.shape[-1] < 5):
            raise InferenceError(
                f"output '{self.boxes}' has the shape {found.shape}; expected four numbers a box"
            )
        rows = found.reshape(-1, found.shape[-1] or 4)
        corners = self._image_corners(rows[:, :4], size)
        scores, classes = self._class_scores(outputs, rows[:, 4:])
        if not len(corners) == len(scores) == len(classes):
            raise InferenceError(
                f"found {len(corners)} boxes, {len(scores)} scores and {len(classes)} classes; "
                "expected equal numbers"
            )
        places, columns = np.nonzero(scores >= self.threshold)
        order = np.argsort(-scores[places, columns], kind="stable")
        places, columns = places[order], columns[order]
        if self.nms is not None:
            selected = self.nms.keep(corners[places], classes[places, columns])
            places, columns = places[selected], columns[selected]
        corners = np.clip(
            corners[places], 0, [*size, *size]
        )  # after the suppression, as in the models
        return [
            Box(self.class_name(index), index, score, *edges)
            for index, score, edges in zip(
                classes[places, columns].tolist(),
                scores[places, columns].tolist(),
                corners.tolist(),
                strict=True,
            )
        ]

    def paint(self, picture: Picture, found: Sequence[Box]) -> Picture:
        """Paint boxes and their names on an image."""
        return paint_boxes(picture, found)

    def _image_corners(self, boxes: NumpyArray, size: tuple[int, int]) -> NumpyArray:
        """Return left, top, right and bottom in pixels of the image, possibly outside of it."""
        placed = self.image.place(*size)
        if self.box_form == "cxcywh":
            middle, half = boxes[:, :2], boxes[:, 2:] / 2
            boxes = np.concatenate([middle - half, middle + half], axis=1)
        if self.normalised:
            boxes = boxes * [placed.width, placed.height, placed.width, placed.height]
        moved = boxes - [placed.left, placed.top, placed.left, placed.top]
        scale = [placed.scale_x, placed.scale_y, placed.scale_x, placed.scale_y]
        corners: NumpyArray = moved / scale
        return corners

    def _class_scores(
        self, outputs: Mapping[str, NumpyArray], score_columns: NumpyArray
    ) -> tuple[NumpyArray, NumpyArray]:
        """Return the scores and classes of each box: one, or one for each class.

        Args:
            outputs: The outputs by name.
            score_columns: The columns of the boxes' output after the four coordinates.
        """
        values = read_finite(outputs, self.scores) if self.scores else score_columns
        if self.labels:
            labels = read_output(outputs, self.labels).reshape(-1, 1).astype(np.int64)
            return apply_activation(values.reshape(-1, 1), self.activation), labels
        odds = apply_activation(values.reshape(-1, values.shape[-1]), self.activation)
        if self.classes:
            odds = odds[:, : len(self.classes)]
        if self.every_class:
            return odds, np.broadcast_to(np.arange(odds.shape[1]), odds.shape)
        return odds.max(axis=1, keepdims=True), odds.argmax(axis=1)[:, None]
