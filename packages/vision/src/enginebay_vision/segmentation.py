"""Semantic segmentation: the class of each pixel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from enginebay.errors import InputError
from enginebay_vision.drawing import paint_labels, paint_mask
from enginebay_vision.image_files import open_label_map
from enginebay_vision.maps import interpolate_map, locate_pixels, pick_nearest
from enginebay_vision.model_checks import check_classes, check_maps
from enginebay_vision.outputs import read_channels_first, read_map
from enginebay_vision.results import FoundMap, Segment
from enginebay_vision.task import OneOutputTask
from enginebay_vision.truth.files import find_image_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as PilImage

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray

#: The value of a pixel without a class, in resulting masks and in mask files.
NO_CLASS, NO_CLASS_IN_FILES = -1, 255


class SemanticSegmentation(OneOutputTask, frozen=True, kw_only=True, tag="semantic-segmentation"):
    """Semantic segmentation: the model classifies each pixel.

    Attributes:
        output: The output with scores or classes; empty for the model's first output.
        form: ``scores`` for an output with a score for each class and position, ``1×C×h×w``, or
            ``1×h×w×C`` if the layout of the input is ``NHWC``: a pixel gets the class with the
            largest score. ``classes`` for an output with the class index of each position,
            ``1×h×w`` or ``1×1×h×w``.
        from_one: True if a pixel of a mask file is the class index plus 1, or 0 for no class, as in
            ADE20K.
    """

    form: Literal["scores", "classes"] = "scores"
    from_one: bool = False

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Raise a ``UsageError`` unless the output's shape fits ``form`` and the class names."""
        if self.form == "classes":
            check_maps(output, dims, ("classes", "1hw"), ("classes", "11hw"))
        else:
            check_maps(output, dims, ("scores", self.image.layout))
            check_classes(self.classes, output, [dims[self.image.layout.index("C")]], extra=0)

    def find_items(self, path: Path) -> Sequence[tuple[Path, Path | None]]:
        """Return pairs (image file, mask file); without mask files, (image file, None)."""
        return find_image_pairs(
            path, (("images", "annotations"), ("JPEGImages", "SegmentationClass")), (".png",)
        )

    def read_truth(self, image: PilImage, annotation: Path) -> tuple[PilImage, NumpyArray]:
        """Return the image, and each pixel's class index, ``H×W int16``; -1 for no class."""
        mask = open_label_map(annotation, image.size).astype(np.int16)
        mask[mask == NO_CLASS_IN_FILES] = NO_CLASS
        if self.from_one:
            mask = np.where(mask > 0, mask - 1, NO_CLASS).astype(np.int16)
        if self.classes and mask.max() >= len(self.classes):
            raise InputError(
                f"'{annotation}' has a pixel of class {mask.max()}, but the task has "
                f"{len(self.classes)} classes, counted from 0; {NO_CLASS_IN_FILES} means no class"
            )
        return image, mask

    def postprocess(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]
    ) -> FoundMap[Segment]:
        """Compute the class of each pixel.

        Returns:
            The classes in the image, the most frequent first. The attribute ``array`` contains the
            class index of each pixel, ``H×W int16``; -1 for pixels that the preprocessing cropped.
        """
        if self.form == "classes":
            # Class indices cannot be interpolated.
            classes = read_map(outputs, self.output)
            positions = locate_pixels(self.image, size, classes.shape)
            mask = pick_nearest(classes, positions).astype(np.int16)
        else:
            maps = read_channels_first(outputs, self.output, self.image.layout)
            positions = locate_pixels(self.image, size, maps.shape[1:])
            mask = np.empty(size[::-1], np.int16)
            for band, scores in interpolate_map(maps, positions):
                mask[band] = scores.argmax(0)
        mask[positions.unseen] = NO_CLASS
        indices, counts = np.unique(mask[mask >= 0], return_counts=True)
        shares = counts / max(1, counts.sum())  # all pixels may have been cropped
        rows = [
            Segment(self.class_name(index), index, share)
            for index, share in zip(indices.tolist(), shares.tolist(), strict=True)
        ]
        return FoundMap(sorted(rows, key=lambda segment: -segment.share), mask)

    def paint_results(self, image: PilImage, results: FoundMap[Segment]) -> PilImage:
        """Return the image with class colours and the names of the five most frequent classes."""
        labels = [(f"{segment.name} {segment.share:.0%}", segment.index) for segment in results[:5]]
        return paint_labels(paint_mask(image, results.array), labels)
