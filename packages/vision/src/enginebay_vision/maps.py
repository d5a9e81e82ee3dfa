"""Maps over a network's input, interpolated at the pixels of the image."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.authors import NumpyArray
    from enginebay_vision.image_input import ImageInput

#: The maximum number of values interpolated at once: 150 classes at 4K would need 5 GB.
_MAX_NUMBERS_AT_ONCE = 1 << 22


class PixelPlaces(NamedTuple):
    """Positions of the centres of an image's pixels in a map.

    Attributes:
        rows: For each row of pixels; 0 is the centre of the map's first row.
        columns: The same for columns.
        unseen: ``H×W``: True for pixels that were cropped before the network.
    """

    rows: NumpyArray
    columns: NumpyArray
    unseen: NumpyArray


def locate_pixels(image: ImageInput, size: tuple[int, int], cells: tuple[int, ...]) -> PixelPlaces:
    """Locate an image's pixels in a map over the network's input.

    Args:
        image: The preprocessing of the image.
        size: The image's width and height.
        cells: The map's height and width.
    """
    placed = image.place(*size)
    y = (np.arange(size[1]) + 0.5) * placed.scale_y + placed.top
    x = (np.arange(size[0]) + 0.5) * placed.scale_x + placed.left
    outside = [(y < 0) | (y >= placed.height), (x < 0) | (x >= placed.width)]
    return PixelPlaces(
        y * cells[0] / placed.height - 0.5,
        x * cells[1] / placed.width - 0.5,
        outside[0][:, None] | outside[1],
    )


def interpolate_map(values: NumpyArray, places: PixelPlaces) -> Iterator[tuple[slice, NumpyArray]]:
    """Interpolate a map ``C×h×w`` at an image's pixels, in bands of rows."""
    step = max(1, _MAX_NUMBERS_AT_ONCE // max(1, len(values) * len(places.columns)))
    for start in range(0, len(places.rows), step):
        band = slice(start, start + step)
        yield (
            band,
            interpolate_axis(interpolate_axis(values, places.rows[band], 1), places.columns, 2),
        )


def pick_nearest(values: NumpyArray, places: PixelPlaces) -> NumpyArray:
    """Return the entries of a map ``h×w`` that contain an image's pixels."""
    rows, columns = (
        np.floor(positions + 0.5).astype(np.intp).clip(0, last - 1)
        for positions, last in zip((places.rows, places.columns), values.shape, strict=True)
    )
    entries: NumpyArray = values[rows][:, columns]
    return entries


def interpolate_axis(values: NumpyArray, places: NumpyArray, axis: int) -> NumpyArray:
    """Interpolate between the two nearest entries along an axis; Pillow always uses more."""
    last = values.shape[axis] - 1
    places = places.clip(0, last)
    before = np.floor(places).astype(np.intp)
    share = (places - before).astype(np.float32).reshape((-1,) + (1,) * (values.ndim - axis - 1))
    after = np.minimum(before + 1, last)
    weighted: NumpyArray = values.take(before, axis) * (1 - share)
    result: NumpyArray = weighted + values.take(after, axis) * share
    return result
