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
from enginebay_vision.truth.files import find_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from PIL.Image import Image as Picture

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray

#: A pixel without a class: in resulting masks, and in mask files.
NONE, NONE_IN_FILES = -1, 255


class SemanticSegmentation(OneOutputTask, frozen=True, kw_only=True, tag="semantic-segmentation"):
    """The model classifies each pixel.

    Attributes:
        output: The output; empty for the model's first.
        form: ``scores``: the output is ``1×C×h×w``, or ``1×h×w×C`` if the input has that layout,
            and the class with the largest number is used; ``classes``: the output has the class
            index of each position, ``1×h×w`` or ``1×1×h×w``.
        from_one: True if mask files count classes from 1 and 0 means no class, as in ADE20K.
    """

    form: Literal["scores", "classes"] = "scores"
    from_one: bool = False

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Check the axes of the output, and that there is a map for each class name."""
        if self.form == "classes":
            check_maps(output, dims, ("classes", "1hw"), ("classes", "11hw"))
        else:
            check_maps(output, dims, ("scores", self.image.layout))
            check_classes(self.classes, output, [dims[self.image.layout.index("C")]], extra=0)

    def find_items(self, path: Path) -> list[tuple[Path, Any]]:
        """Return images with masks of the same names: ADE20K's or VOC's layout."""
        return find_pairs(
            path, (("images", "annotations"), ("JPEGImages", "SegmentationClass")), (".png",)
        )

    def read_truth(self, picture: Picture, annotation: Path) -> tuple[Picture, NumpyArray]:
        """Read an image's mask: the class index of each pixel."""
        mask = open_label_map(annotation, picture.size).astype(np.int16)
        mask[mask == NONE_IN_FILES] = NONE
        if self.from_one:
            mask = np.where(mask > 0, mask - 1, NONE).astype(np.int16)
        if self.classes and mask.max() >= len(self.classes):
            raise InputError(
                f"'{annotation}' has a pixel of class {mask.max()}, but the task has "
                f"{len(self.classes)} classes, counted from 0; {NONE_IN_FILES} means no class"
            )
        return picture, mask

    def postprocess(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]
    ) -> FoundMap[Segment]:
        """Compute the class of each pixel.

        Returns:
            The classes in the image, the largest first; ``array`` is the mask,
            ``H×W int16``, with -1 for pixels that were cropped before the network.
        """
        if self.form == "classes":
            classes = read_map(outputs, self.output)
            places = locate_pixels(self.image, size, classes.shape)
            mask = pick_nearest(classes, places).astype(np.int16)
        else:
            maps = read_channels_first(outputs, self.output, self.image.layout)
            places = locate_pixels(self.image, size, maps.shape[1:])
            mask = np.empty(size[::-1], np.int16)
            for band, scores in interpolate_map(maps, places):
                mask[band] = scores.argmax(0)
        mask[places.unseen] = NONE
        indices, counts = np.unique(mask[mask >= 0], return_counts=True)
        shares = counts / max(1, counts.sum())
        rows = [
            Segment(self.class_name(index), index, share)
            for index, share in zip(indices.tolist(), shares.tolist(), strict=True)
        ]
        return FoundMap(sorted(rows, key=lambda segment: -segment.share), mask)

    def paint(self, picture: Picture, found: FoundMap[Segment]) -> Picture:
        """Blend the classes' colours into an image, with the names of the largest classes."""
        labels = [(f"{segment.name} {segment.share:.0%}", segment.index) for segment in found[:5]]
        return paint_labels(paint_mask(picture, found.array), labels)
