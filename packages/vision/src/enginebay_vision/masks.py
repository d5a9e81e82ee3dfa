"""Converts the mask of an object from the entries of a model's output to pixels of the image."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from enginebay_vision.maps import interpolate_axis
from enginebay_vision.results import InstanceMask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay.authors.arrays import NumpyArray
    from enginebay_vision.image_input import ImageInput


class Extent(NamedTuple):
    """A rectangle in pixels of the image, which may reach beyond the image.

    Attributes:
        left: The x coordinate of the left edge; 0 is the left edge of the image.
        top: The y coordinate of the upper edge; 0 is the upper edge of the image.
        right: The x coordinate of the right edge.
        bottom: The y coordinate of the lower edge.
    """

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def from_input(cls, image: ImageInput, size: tuple[int, int]) -> Self:
        """Return the extent of the network's input for an image; ``size`` is width and height."""
        placed = image.place(*size)
        return cls(
            -placed.left / placed.scale_x,
            -placed.top / placed.scale_y,
            (placed.width - placed.left) / placed.scale_x,
            (placed.height - placed.top) / placed.scale_y,
        )

    def intersect(self, other: Sequence[float]) -> Extent:
        """Return the part of the extent that is inside of another one."""
        left, top, right, bottom = other
        return Extent(
            max(self.left, left),
            max(self.top, top),
            min(self.right, right),
            min(self.bottom, bottom),
        )

    def select_entries(self, chosen: NumpyArray) -> Extent:
        """Return the part of the extent that interpolation between chosen entries can reach.

        ``chosen`` is ``h×w bool``, with at least one True, and covers the extent.
        """
        rows, columns = (np.flatnonzero(chosen.any(axis)) for axis in (1, 0))
        width = (self.right - self.left) / chosen.shape[1]
        height = (self.bottom - self.top) / chosen.shape[0]
        # Half of an entry, and the whole neighbour, in which it still counts.
        return Extent(
            self.left + (columns[0] - 1) * width,
            self.top + (rows[0] - 1) * height,
            self.left + (columns[-1] + 2) * width,
            self.top + (rows[-1] + 2) * height,
        )


def cut_mask(
    values: NumpyArray, extent: Extent, limits: Extent, size: tuple[int, int], threshold: float
) -> InstanceMask:
    """Interpolate a mask at the pixels of an image, and cut it at a threshold.

    The pixel in column ``x`` has its centre at ``(x + 0.5 - left) / (right - left) · w - 0.5`` of
    the mask's columns, counted from the centre of the first one, where ``left`` and ``right`` are
    the edges of ``extent``; rows likewise. Its value is interpolated linearly between the two
    nearest columns and rows, as by torch's ``interpolate`` with ``align_corners=False``.

    Args:
        values: ``h×w``: for each entry the probability that it belongs to the object.
        extent: The rectangle of the image that the entries cover.
        limits: The rectangle in which the centres of the object's pixels are.
        size: The image's width and height in pixels.
        threshold: The smallest probability of the object's pixels.
    """
    columns = _find_pixels(limits.left, limits.right, size[0])
    rows = _find_pixels(limits.top, limits.bottom, size[1])
    if not (columns.size and rows.size):  # also for an extent without an area
        return InstanceMask(0, 0, np.zeros((0, 0), bool))
    height, width = values.shape
    x = (columns + 0.5 - extent.left) / (extent.right - extent.left) * width - 0.5
    y = (rows + 0.5 - extent.top) / (extent.bottom - extent.top) * height - 0.5
    inside = interpolate_axis(interpolate_axis(values, y, 0), x, 1)
    return InstanceMask(int(columns[0]), int(rows[0]), inside >= threshold)


def cut_box_mask(
    values: NumpyArray, box: Extent, size: tuple[int, int], threshold: float
) -> InstanceMask:
    """Resize a mask into its box, and cut it at a threshold.

    Outside of the box the probability is 0: at the edge of the box, it is half of the outer
    entry's. So do Detectron2's ``paste_masks_in_image`` and mmdet's Mask R-CNN.
    """
    width = (box.right - box.left) / values.shape[1]
    height = (box.bottom - box.top) / values.shape[0]
    extent = Extent(box.left - width, box.top - height, box.right + width, box.bottom + height)
    return cut_mask(np.pad(values, 1), extent, box, size, threshold)


def _find_pixels(low: float, high: float, count: int) -> NumpyArray:
    """Return the pixels, of ``count`` in a row, whose centres are between ``low`` and ``high``."""
    first, last = (min(max(0, ceil(edge - 0.5)), count) for edge in (low, high))
    return np.arange(first, last)
