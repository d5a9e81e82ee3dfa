"""Interpolates maps, such as masks or depths, from the network's input to the image's pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.authors.arrays import NumpyArray
    from enginebay_vision.image_input import ImageInput

#: The number of values interpolated at once, which limits memory: 150 classes at 4K need 5 GB.
_MAX_VALUES_AT_ONCE = 1 << 22


class PixelPositions(NamedTuple):
    """The positions of an image's pixel centres in a map, counted in entries of the map.

    Attributes:
        rows: The position of each row of pixels; 0 is the centre of the map's first row.
        columns: The position of each column of pixels; 0 is the centre of the map's first column.
        unseen: ``H×W bool``: True for pixels that the preprocessing cropped.
    """

    rows: NumpyArray
    columns: NumpyArray
    unseen: NumpyArray


def locate_pixels(
    image: ImageInput, size: tuple[int, int], shape: tuple[int, ...]
) -> PixelPositions:
    """Return the positions of an image's pixels in a map that covers the network's input.

    ``size`` is the image's width and height; ``shape`` is the map's height and width.
    """
    placed = image.place(*size)
    # Half a pixel, because positions are those of pixel centres.
    y = (np.arange(size[1]) + 0.5) * placed.scale_y + placed.top
    x = (np.arange(size[0]) + 0.5) * placed.scale_x + placed.left
    outside = [(y < 0) | (y >= placed.height), (x < 0) | (x >= placed.width)]
    return PixelPositions(
        y * shape[0] / placed.height - 0.5,
        x * shape[1] / placed.width - 0.5,
        outside[0][:, None] | outside[1],
    )


def interpolate_map(
    values: NumpyArray, positions: PixelPositions
) -> Iterator[tuple[slice, NumpyArray]]:
    """Interpolate a map ``C×h×w`` at an image's pixels, some rows of pixels at a time.

    Yields (slice of pixel rows, interpolated values ``C×rows×W``).
    """
    step = max(1, _MAX_VALUES_AT_ONCE // max(1, len(values) * len(positions.columns)))
    for start in range(0, len(positions.rows), step):
        band = slice(start, start + step)
        in_rows = interpolate_axis(values, positions.rows[band], 1)
        yield band, interpolate_axis(in_rows, positions.columns, 2)


def pick_nearest(values: NumpyArray, positions: PixelPositions) -> NumpyArray:
    """Return, for each pixel of an image, the entry of a map ``h×w`` that contains the pixel."""
    # Cropped pixels are outside of the map; the caller overwrites their values.
    rows, columns = (
        np.floor(axis_positions + 0.5).astype(np.intp).clip(0, size - 1)
        for axis_positions, size in zip(
            (positions.rows, positions.columns), values.shape, strict=True
        )
    )
    entries: NumpyArray = values[rows][:, columns]
    return entries


def interpolate_axis(values: NumpyArray, positions: NumpyArray, axis: int) -> NumpyArray:
    """Return values interpolated linearly along an axis; positions are clipped to the axis."""
    last = values.shape[axis] - 1
    positions = positions.clip(0, last)
    before = np.floor(positions).astype(np.intp)
    share = (positions - before).astype(np.float32)
    share = share.reshape((-1,) + (1,) * (values.ndim - axis - 1))  # broadcast along the axis
    after = np.minimum(before + 1, last)
    weighted: NumpyArray = values.take(before, axis) * (1 - share)
    result: NumpyArray = weighted + values.take(after, axis) * share
    return result
