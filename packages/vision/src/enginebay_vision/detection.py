"""Detection: from a network's boxes to objects in the picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from enginebay.errors import InferenceError, UsageError
from enginebay_vision.drawing import paint_boxes
from enginebay_vision.fitting import check_classes, find_spec, fit_image
from enginebay_vision.found import Box
from enginebay_vision.outputs import Activation, activated, numbers, one_picture
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

#: The least score of the boxes that metrics get, whatever is shown: precision falls slowly.
_MEASURED = 0.001


class ObjectDetection(Task, frozen=True, kw_only=True, tag="object-detection"):
    """The model finds objects in a picture.

    Attributes:
        boxes: The output with four numbers for each box; empty for the model's first.
        scores: The output with one score for each box; or, without ``labels``, with one for each
            box and class, of which the largest counts. An entry after the last class name stands
            for "no object". Empty where they are in the output of the boxes, behind the four.
        labels: The output with the class's number for each box; empty where there is none.
        columns: True where a box is a column and not a row, ``(4 + classes)×boxes``, as in
            ultralytics' models. Only without ``scores``.
        box_form: ``xyxy``: left, top, right, bottom; ``cxcywh``: the middle, width and height.
        normalised: True where 1 is the width or height of the network's input; False where they
            are in its pixels.
        activation: What makes scores from 0 to 1: ``softmax``, ``sigmoid`` or ``none``.
        threshold: Boxes with a lower score are left out.
        every_class: True if a box is an object of each class whose score is high enough, as in
            torchvision and MMDetection; False if it is an object of its best class only. Only
            without ``labels``.
        nms: How boxes that mean the same object are dropped; None if the model does it.
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
            raise UsageError(f"threshold is {self.threshold:g}, wanted a number from 0 to 1")
        if self.labels and self.activation == "softmax":
            raise UsageError(
                "softmax needs a score for each class, and labels names the classes",
                hint="labels='', or another activation",
            )
        if self.columns and self.scores:
            raise UsageError(
                "columns is for scores behind the boxes, and scores names an output",
                hint="scores='', or columns=False",
            )
        if self.labels and self.every_class:
            raise UsageError(
                "every_class needs a score for each class, and labels names the classes",
                hint="labels='', or every_class=False",
            )

    def fit(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> ObjectDetection:
        """Check that the task fits a model, and fill in the name and the dtype that it left out.

        Raises:
            UsageError: It does not; the message says where.
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
                also = "" if self.scores else ", and scores behind them"
                raise UsageError(
                    f"the task wants four numbers for each box{also}, and the output is "
                    f"{boxes.describe()}"
                )
            counts = counts if self.scores else (more,)
        if not self.labels:
            check_classes(self.classes, scores, counts, extra=1)

    def open_folder(self, path: Path) -> Any:
        """The pictures in a folder, with the boxes of their annotations as targets."""
        least = min(self.threshold, _MEASURED)
        task = msgspec.structs.replace(self, threshold=least)
        return AnnotatedPictures(task, self.find_items(path))

    def find_items(self, path: Path) -> list[tuple[Path, Any]]:
        """Pictures with boxes, as COCO or VOC has them."""
        boxes = find_boxes(path, self.classes)
        return super().find_items(path) if boxes is None else list(boxes)

    def postprocess(self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]) -> list[Box]:
        """Find the objects.

        Returns:
            Boxes by the pixels of the picture, the best first.
        """
        found = numbers(outputs, self.boxes)
        found = found.T if self.columns else found
        if found.size and (found.shape[-1] != 4 if self.scores else found.shape[-1] < 5):
            raise InferenceError(
                f"output '{self.boxes}' has the shape {found.shape}, wanted four numbers a box"
            )
        rows = found.reshape(-1, found.shape[-1] or 4)
        corners = self._corners(rows[:, :4], size)
        scores, classes = self._scores(outputs, rows[:, 4:])
        if not len(corners) == len(scores) == len(classes):
            raise InferenceError(
                f"there are {len(corners)} boxes, {len(scores)} scores and {len(classes)} "
                "classes; wanted one of each for a box"
            )
        places, columns = np.nonzero(scores >= self.threshold)
        order = np.argsort(-scores[places, columns], kind="stable")
        places, columns = places[order], columns[order]
        if self.nms is not None:
            kept = self.nms.keep(corners[places], classes[places, columns])
            places, columns = places[kept], columns[kept]
        corners = np.clip(corners[places], 0, [*size, *size])  # models suppress before they do
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
        """Paint boxes and their names on a picture."""
        return paint_boxes(picture, found)

    def _corners(self, boxes: NumpyArray, size: tuple[int, int]) -> NumpyArray:
        """Left, top, right and bottom by the pixels of the picture, which they may leave."""
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

    def _scores(
        self, outputs: Mapping[str, NumpyArray], behind: NumpyArray
    ) -> tuple[NumpyArray, NumpyArray]:
        """For each box a row: a score, or one for each class, and the class of each score.

        Args:
            outputs: The outputs by name.
            behind: What the output of the boxes has behind the four numbers.
        """
        values = numbers(outputs, self.scores) if self.scores else behind
        if self.labels:
            labels = one_picture(outputs, self.labels).reshape(-1, 1).astype(np.int64)
            return activated(values.reshape(-1, 1), self.activation), labels
        odds = activated(values.reshape(-1, values.shape[-1]), self.activation)
        if self.classes:
            odds = odds[:, : len(self.classes)]
        if self.every_class:
            return odds, np.broadcast_to(np.arange(odds.shape[1]), odds.shape)
        return odds.max(axis=1, keepdims=True), odds.argmax(axis=1)[:, None]
