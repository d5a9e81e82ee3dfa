"""Non-maximum suppression, for models that were cut before their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from enginebay.errors import UsageError
from enginebay_vision.detections.boxes import overlaps

if TYPE_CHECKING:
    from enginebay.authors import NumpyArray


class Suppression(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keeps the best of the boxes that mean the same object.

    Attributes:
        iou: A box is dropped if its overlap with a better box, intersection over union, is larger.
        per_class: True if only boxes of the same class can mean the same object.
        most: The number of boxes that are kept.
    """

    iou: float = 0.5
    per_class: bool = True
    most: int = 100

    def __post_init__(self) -> None:
        if not 0 <= self.iou <= 1:
            raise UsageError(f"nms: iou is {self.iou:g}, wanted a number from 0 to 1")
        if self.most < 1:
            raise UsageError(f"nms: most is {self.most}, wanted a whole number from 1")

    def keep(self, boxes: NumpyArray, classes: NumpyArray) -> NumpyArray:
        """Return the places of the boxes that are kept.

        Args:
            boxes: ``N×4``: left, top, right, bottom, the best first.
            classes: The class of each.
        """
        kept: list[int] = []
        rest = np.arange(len(boxes))
        while rest.size and len(kept) < self.most:
            best, rest = rest[0], rest[1:]
            kept.append(int(best))
            same = overlaps(boxes[best : best + 1], boxes[rest]) > self.iou
            if self.per_class:
                same &= classes[rest] == classes[best]
            rest = rest[~same]
        return np.asarray(kept, np.intp)
