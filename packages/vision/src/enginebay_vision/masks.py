"""Converts the mask of an object from the entries of a model's output to pixels of the image.

Rectangles are arrays of four edges in pixels of the image: left, top, right and bottom. They may
reach beyond the image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from enginebay_vision.maps import interpolate_axis
from enginebay_vision.results import InstanceMask

if TYPE_CHECKING:
    from enginebay.authors.arrays import NumpyArray
    from enginebay_vision.steps import Placement


def locate_input(placed: Placement) -> NumpyArray:
    """Return the rectangle that the network's input covers."""
    return placed.to_image(np.array([[0, 0], [placed.width, placed.height]])).ravel()


def cut_mask(
    values: NumpyArray,
    extent: NumpyArray,
    limits: NumpyArray,
    size: tuple[int, int],
    threshold: float,
) -> InstanceMask:
    """Interpolate a mask at the pixels of an image, and cut it at a threshold.

    The pixel in column ``x`` has its centre at ``(x + 0.5 - left) / (right - left) · w - 0.5`` of
    the mask's columns, counted from the centre of the first one, where ``left`` and ``right`` are
    the edges of ``extent``; rows likewise. Its value is interpolated linearly between the two
    nearest columns and rows, as by torch's ``interpolate`` with ``align_corners=False``.

    Args:
        values: ``h×w``: for each entry the probability that it belongs to the object.
        extent: The rectangle that the entries cover.
        limits: The rectangle in which the centres of the object's pixels are; also in ``extent``.
        size: The image's width and height in pixels.
        threshold: The smallest probability of the object's pixels.
    """
    low, high = np.maximum(extent[:2], limits[:2]), np.minimum(extent[2:], limits[2:])
    first, last = (np.ceil(edges - 0.5).clip(0, size).astype(int) for edges in (low, high))
    if (first >= last).any():  # also for an extent without an area
        return InstanceMask(0, 0, np.zeros((0, 0), bool))
    # The number of pixels in an entry, horizontally and vertically.
    entry = (extent[2:] - extent[:2]) / values.shape[::-1]
    columns, rows = (
        (np.arange(first[axis], last[axis]) + 0.5 - extent[axis]) / entry[axis] - 0.5
        for axis in (0, 1)
    )
    inside = interpolate_axis(interpolate_axis(values, rows, 0), columns, 1)
    return InstanceMask(int(first[0]), int(first[1]), inside >= threshold)


def cut_box_mask(
    values: NumpyArray, box: NumpyArray, size: tuple[int, int], threshold: float
) -> InstanceMask:
    """Resize a mask into its box, and cut it at a threshold.

    Outside of the box the probability is 0, so at the edge of the box it is half of the outer
    entry's. So do Detectron2's ``paste_masks_in_image`` and mmdet's Mask R-CNN.
    """
    entry = (box[2:] - box[:2]) / values.shape[::-1]
    extent = np.concatenate([box[:2] - entry, box[2:] + entry])
    return cut_mask(np.pad(values, 1), extent, box, size, threshold)


def cut_input_mask(
    values: NumpyArray, extent: NumpyArray, size: tuple[int, int], threshold: float
) -> InstanceMask:
    """Cut a mask of the network's input, which covers ``extent``, at a threshold."""
    chosen = values >= threshold
    rows, columns = (np.flatnonzero(chosen.any(axis)) for axis in (1, 0))
    if not rows.size:
        return InstanceMask(0, 0, np.zeros((0, 0), bool))
    # Few pixels, if the object is small: to the middles of the entries around the chosen ones.
    entries = np.array([columns[0] - 1, rows[0] - 1, columns[-1] + 2, rows[-1] + 2])
    entry = (extent[2:] - extent[:2]) / values.shape[::-1]
    limits = np.tile(extent[:2], 2) + entries * np.tile(entry, 2)
    return cut_mask(values, extent, limits, size, threshold)
