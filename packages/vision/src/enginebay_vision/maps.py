"""Maps over a network's input, interpolated at the pixels of the picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.authors import NumpyArray
    from enginebay_vision.image_input import ImageInput

#: Numbers that are interpolated at once: 150 classes at 4K would take 5 GB.
_BAND = 1 << 22


class PixelPlaces(NamedTuple):
    """Where the middles of a picture's pixels lie in a map.

    Attributes:
        rows: For each row of pixels; 0 is the middle of the map's first row.
        columns: The same for columns.
        unseen: ``H×W``: True for pixels that were cut off before the network.
    """

    rows: NumpyArray
    columns: NumpyArray
    unseen: NumpyArray


def find_places(image: ImageInput, size: tuple[int, int], cells: tuple[int, ...]) -> PixelPlaces:
    """Find where a picture's pixels lie in a map over the network's input.

    Args:
        image: How the picture became the input.
        size: The picture's width and height.
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


def interpolated(values: NumpyArray, places: PixelPlaces) -> Iterator[tuple[slice, NumpyArray]]:
    """Interpolate a map ``C×h×w`` at a picture's pixels, some rows of them at a time."""
    step = max(1, _BAND // max(1, len(values) * len(places.columns)))
    for start in range(0, len(places.rows), step):
        band = slice(start, start + step)
        yield band, between(between(values, places.rows[band], 1), places.columns, 2)


def nearest(values: NumpyArray, places: PixelPlaces) -> NumpyArray:
    """The entries of a map ``h×w`` in which a picture's pixels lie."""
    rows, columns = (
        np.floor(each + 0.5).astype(np.intp).clip(0, last - 1)
        for each, last in zip((places.rows, places.columns), values.shape, strict=True)
    )
    found: NumpyArray = values[rows][:, columns]
    return found


def between(values: NumpyArray, places: NumpyArray, axis: int) -> NumpyArray:
    """Interpolate between the two nearest entries along an axis; Pillow always takes more."""
    last = values.shape[axis] - 1
    places = places.clip(0, last)
    before = np.floor(places).astype(np.intp)
    share = (places - before).astype(np.float32).reshape((-1,) + (1,) * (values.ndim - axis - 1))
    after = np.minimum(before + 1, last)
    found: NumpyArray = values.take(before, axis) * (1 - share) + values.take(after, axis) * share
    return found
