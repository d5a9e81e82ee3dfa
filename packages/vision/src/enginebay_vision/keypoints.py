"""Keypoint detection: finds the points of one body in a top-down model's outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from enginebay.errors import InferenceError, InputError, UsageError
from enginebay_vision.drawing import paint_points
from enginebay_vision.model_checks import check_classes, check_maps, find_spec
from enginebay_vision.outputs import read_channels_first, read_finite
from enginebay_vision.results import Keypoint
from enginebay_vision.task import OneOutputTask
from enginebay_vision.truth.coco import read_coco_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as PilImage

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray
    from enginebay_vision.truth.coco import CocoObject


class TruePoints(NamedTuple):
    """The annotated keypoints of one body.

    Attributes:
        points: ``K×3``: x and y in pixels of the image, and visibility (0 for unknown positions).
        area: The area inside the body's outline in pixels or, if no outline is known, of its box.
    """

    points: NumpyArray
    area: float


class KeypointDetection(OneOutputTask, frozen=True, kw_only=True, tag="keypoint-detection"):
    """Keypoint detection: the model finds the keypoints of the one body that fills an image.

    Attributes:
        classes: The names of the points, in the model's order.
        output: The output with a heatmap for each point, ``1×K×h×w``; empty for the model's first
            output. With ``output_y``, the output with a score for each place from left to right,
            ``1×K×places``, as in SimCC.
        output_y: The output with a score for each place from top to bottom, ``1×K×places``; empty
            for a model with heatmaps.
        skeleton: Pairs of point indices; a drawing connects the points of a pair by a line.
        threshold: The minimum score of points in a drawing.
        sigmas: For metrics, the standard deviation of each point's annotations, relative to the
            size of the body; empty for COCO's values for 17 body points.
        padding: The factor by which the box of an annotated body is enlarged before the body is cut
            out of the image.
    """

    output_y: str = ""
    skeleton: tuple[tuple[int, int], ...] = ()
    threshold: float = 0.3
    sigmas: tuple[float, ...] = ()
    padding: float = 1.25

    def __post_init__(self) -> None:
        count = len(self.classes)
        if count and not all(0 <= point < count for line in self.skeleton for point in line):
            raise UsageError(f"'skeleton' is invalid; expected point indices from 0 to {count - 1}")
        if self.sigmas and count not in (0, len(self.sigmas)):
            raise UsageError(
                f"'sigmas' has {len(self.sigmas)} numbers, but 'classes' has {count} names"
            )
        if not (all(sigma > 0 for sigma in self.sigmas) and self.padding > 0):
            raise UsageError("'sigmas' or 'padding' is invalid; expected numbers above 0")

    def fit(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Self:
        """Return a copy of the task; empty names and dtypes are replaced by the model's.

        Raises:
            UsageError: The task does not fit the model.
        """
        if self.output_y:
            output = find_spec(self.output_y, outputs, "output")
            if output.dims is not None:  # the rank is known
                self.check_output(output, output.dims)
        return super().fit(inputs, outputs)

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Raise a ``UsageError`` unless the output has a heatmap, or scores, for each point."""
        check_maps(
            output, dims, ("scores of places", "NKp") if self.output_y else ("heatmaps", "NKhw")
        )
        check_classes(self.classes, output, [dims[1]], extra=0)

    def find_items(self, path: Path) -> Sequence[tuple[Path, object]]:
        """Return pairs (image file, annotated body); without a COCO file, (image file, None)."""
        coco = read_coco_file(path)
        if coco is None:
            return super().find_items(path)
        # Without a known point, or with many bodies in one box, there is nothing to compare.
        bodies = [body for body in coco.objects if any(body.keypoints[2::3]) and not body.iscrowd]
        for body in bodies:
            # Without names, the task fits any number of points, of three values each.
            if len(body.keypoints) != 3 * len(self.classes or body.keypoints[::3]):
                raise InputError(
                    f"'{coco.path}': annotation {body.id} has {len(body.keypoints) / 3:g} points, "
                    f"but the task has {len(self.classes)} points"
                )
        return [(coco.images[body.image_id], body) for body in bodies]

    def read_truth(self, image: PilImage, annotation: CocoObject) -> tuple[PilImage, TruePoints]:
        """Cut a body out of the image; return this part, and the points in pixels of the part."""
        left, top, width, height = annotation.bbox
        # A file may lack the area of an outline.
        middle, area = (left + width / 2, top + height / 2), annotation.area or width * height
        if self.image.size is not None:
            # The aspect ratio of the network's input, so that the body is not distorted.
            ratio = self.image.size[1] / self.image.size[0]
            width, height = max(width, height * ratio), max(height, width / ratio)
        half_x, half_y = width * self.padding / 2, height * self.padding / 2
        left, top = round(middle[0] - half_x), round(middle[1] - half_y)
        right, bottom = round(middle[0] + half_x), round(middle[1] + half_y)
        points = np.asarray(annotation.keypoints, np.float64).reshape(-1, 3) - [left, top, 0]
        # At least one pixel. Pillow fills the part outside of the image with black.
        part = image.crop((left, top, max(left + 1, right), max(top + 1, bottom)))
        return part, TruePoints(points, area)

    def postprocess(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]
    ) -> list[Keypoint]:
        """Return the position and score of each point, in the model's order."""
        placed = self.image.place(*size)
        if self.output_y:
            rows = [self._read_places(outputs, name) for name in (self.output, self.output_y)]
            peaks = np.stack([scores.argmax(1) for scores in rows], axis=1)
            # As sure as the less sure of both coordinates, as in SimCC.
            scores = np.minimum(*(scores.max(1) for scores in rows))
            counts = [scores.shape[1] for scores in rows]
        else:
            maps = read_channels_first(outputs, self.output, "NCHW")
            self._check_count(self.output, len(maps), "heatmaps")
            peaks, scores = _find_peaks(maps)
            counts = [maps.shape[2], maps.shape[1]]
        # An entry covers several pixels of the network's input, or a part of one.
        entry_size = np.array([placed.width, placed.height]) / counts
        points = placed.to_image(peaks * entry_size).tolist()
        return [
            Keypoint(self.class_name(index), index, score, *point)
            for index, (score, point) in enumerate(zip(scores.tolist(), points, strict=True))
        ]

    def _read_places(self, outputs: Mapping[str, NumpyArray], name: str) -> NumpyArray:
        """Return the scores of an axis's places, ``K×places``."""
        scores = read_finite(outputs, name, np.float32)
        if scores.ndim != 2 or 0 in scores.shape:
            raise InferenceError(
                f"output '{name}' has the shape {scores.shape} for one image; expected K×places"
            )
        self._check_count(name, len(scores), "rows of scores")
        return scores

    def _check_count(self, name: str, count: int, what: str) -> None:
        if self.classes and count != len(self.classes):
            raise InferenceError(
                f"output '{name}' has {count} {what}, but the task has {len(self.classes)} points"
            )

    def paint_results(self, image: PilImage, results: Sequence[Keypoint]) -> PilImage:
        """Paint the points and the skeleton's lines on an image; return the image.

        Points with a score below ``threshold`` are omitted together with their lines.
        """
        points = {
            point.index: (point.x, point.y) for point in results if point.score >= self.threshold
        }
        return paint_points(image, points, self.skeleton)


def _find_peaks(maps: NumpyArray) -> tuple[NumpyArray, NumpyArray]:
    """Return the position (x, y) and the value of the maximum of each map."""
    count, height, width = maps.shape
    best = maps.reshape(count, -1).argmax(1)
    y, x = np.divmod(best, width)
    all_maps = np.arange(count)
    # Padding moves each index by 1, so that neighbours can be read at the border too.
    padded = np.pad(maps, ((0, 0), (1, 1), (1, 1)), mode="edge")
    right = padded[all_maps, y + 1, x + 2] - padded[all_maps, y + 1, x]
    below = padded[all_maps, y + 2, x + 1] - padded[all_maps, y, x + 1]
    # Except at the border, the position moves by a quarter of an entry towards the larger
    # neighbour along each axis, as in the simple baselines of Xiao et al. (2018).
    inside = [(x > 0) & (x < width - 1), (y > 0) & (y < height - 1)]
    moved = [np.sign(right) * 0.25 * inside[0], np.sign(below) * 0.25 * inside[1]]
    return np.stack([x + moved[0], y + moved[1]], axis=1), maps[all_maps, y, x]
