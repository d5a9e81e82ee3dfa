"""Semantic segmentation: from a network's maps to the class of each pixel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from enginebay.errors import InputError
from enginebay_vision.drawing import paint_labels, paint_mask
from enginebay_vision.fitting import check_classes, check_maps
from enginebay_vision.found import FoundMap, Segment
from enginebay_vision.maps import find_places, interpolated, nearest
from enginebay_vision.opening import open_numbers
from enginebay_vision.outputs import channels_first, one_map
from enginebay_vision.task import OneOutputTask
from enginebay_vision.truth.files import find_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from PIL.Image import Image as Picture

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray

#: A pixel without a class: in masks that are found, and in files of masks.
NONE, NONE_IN_FILES = -1, 255


class SemanticSegmentation(OneOutputTask, frozen=True, kw_only=True, tag="semantic-segmentation"):
    """The model tells the class of each pixel.

    Attributes:
        output: The output; empty for the model's first.
        form: ``scores``: it is ``1×C×h×w``, or ``1×h×w×C`` where the input has such a layout, and
            the largest number of a place wins; ``classes``: it has the class's number for each
            place, ``1×h×w`` or ``1×1×h×w``.
        from_one: True if masks in files count classes from 1 and 0 means none, as in ADE20K.
    """

    form: Literal["scores", "classes"] = "scores"
    from_one: bool = False

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Compare the axes, and the number of names with that of the output's maps."""
        if self.form == "classes":
            check_maps(output, dims, ("classes", "1hw"), ("classes", "11hw"))
        else:
            check_maps(output, dims, ("scores", self.image.layout))
            check_classes(self.classes, output, [dims[self.image.layout.index("C")]], extra=0)

    def find_items(self, path: Path) -> list[tuple[Path, Any]]:
        """Pictures with masks of the same names: ADE20K's layout, or VOC's."""
        return find_pairs(
            path, (("images", "annotations"), ("JPEGImages", "SegmentationClass")), (".png",)
        )

    def read_truth(self, picture: Picture, annotation: Path) -> tuple[Picture, NumpyArray]:
        """Read a picture's mask: the number of each pixel's class."""
        mask = open_numbers(annotation, picture.size).astype(np.int16)
        mask[mask == NONE_IN_FILES] = NONE
        if self.from_one:
            mask = np.where(mask > 0, mask - 1, NONE).astype(np.int16)
        if self.classes and mask.max() >= len(self.classes):
            raise InputError(
                f"'{annotation}' has a pixel of class {mask.max()}, and the task names "
                f"{len(self.classes)} classes, from 0 on; {NONE_IN_FILES} is none"
            )
        return picture, mask

    def postprocess(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]
    ) -> FoundMap[Segment]:
        """Find the class of each pixel.

        Returns:
            The classes that cover a part of the picture, the largest first; ``array`` is the mask,
            ``H×W int16``, with -1 for pixels that were cut off before the network.
        """
        if self.form == "classes":
            classes = one_map(outputs, self.output)
            places = find_places(self.image, size, classes.shape)
            mask = nearest(classes, places).astype(np.int16)
        else:
            maps = channels_first(outputs, self.output, self.image.layout)
            places = find_places(self.image, size, maps.shape[1:])
            mask = np.empty(size[::-1], np.int16)
            for band, scores in interpolated(maps, places):
                mask[band] = scores.argmax(0)
        mask[places.unseen] = NONE
        indices, counts = np.unique(mask[mask >= 0], return_counts=True)
        shares = counts / max(1, counts.sum())
        rows = [
            Segment(self.class_name(index), index, share)
            for index, share in zip(indices.tolist(), shares.tolist(), strict=True)
        ]
        return FoundMap(sorted(rows, key=lambda one: -one.share), mask)

    def paint(self, picture: Picture, found: FoundMap[Segment]) -> Picture:
        """Lay the classes' colours over a picture, with the names of the largest."""
        labels = [(f"{one.name} {one.share:.0%}", one.index) for one in found[:5]]
        return paint_labels(paint_mask(picture, found.array), labels)
