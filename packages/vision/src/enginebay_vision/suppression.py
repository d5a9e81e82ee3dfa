"""Non-maximum suppression, for models that do not include it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from enginebay.errors import UsageError
from enginebay_vision.detections.boxes import compute_overlaps

if TYPE_CHECKING:
    from enginebay.authors.arrays import NumpyArray


class Suppression(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Non-maximum suppression: removes boxes that overlap a box with a better score.

    Attributes:
        iou: A box is removed if its intersection over union with a better box is above this number.
        per_class: True to compare only boxes of the same class.
        most: The maximum number of remaining boxes for an image.
    """

    iou: float = 0.5
    per_class: bool = True
    most: int = 100

    def __post_init__(self) -> None:
        if not 0 <= self.iou <= 1:
            raise UsageError(f"nms: 'iou' is {self.iou:g}; expected a number from 0 to 1")
        if self.most < 1:
            raise UsageError(f"nms: 'most' is {self.most}; expected a whole number above 0")

    def keep(self, boxes: NumpyArray, classes: NumpyArray) -> NumpyArray:
        """Return the indices of the boxes that are not removed, in ascending order.

        Args:
            boxes: ``N×4``: left, top, right and bottom, the box with the best score first.
            classes: The class index of each box.
        """
        selected: list[int] = []
        candidates = np.arange(len(boxes))
        while candidates.size and len(selected) < self.most:
            best, candidates = candidates[0], candidates[1:]
            selected.append(int(best))
            is_duplicate = compute_overlaps(boxes[best : best + 1], boxes[candidates]) > self.iou
            if self.per_class:
                is_duplicate &= classes[candidates] == classes[best]
            candidates = candidates[~is_duplicate]
        return np.asarray(selected, np.intp)
