"""A picture with what was found in it."""

from __future__ import annotations

from colorsys import hsv_to_rgb
from typing import TYPE_CHECKING

from enginebay.errors import EnginebayError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as Picture
    from PIL.ImageDraw import ImageDraw

    from enginebay.authors import NumpyArray
    from enginebay_vision.found import Box

#: Turns of the colour circle between a class and the next: the golden ratio, so that none meet.
_TURN = 0.618034


def check_drawing(path: Path) -> None:
    """Refuse a file that cannot be written before anything is run.

    Raises:
        UsageError: Its folder is missing, or Pillow writes no such file.
    """
    from PIL import Image

    kind = Image.registered_extensions().get(path.suffix.lower())
    if kind not in Image.SAVE:
        raise UsageError(
            f"'{path}' cannot be written: '{path.suffix}' is no picture that Pillow writes",
            hint=f"--draw {path.stem or 'out'}.png",
        )
    if path.is_dir() or not path.parent.is_dir():
        state = "it is a folder" if path.is_dir() else f"there is no folder '{path.parent}'"
        raise UsageError(f"'{path}' cannot be written: {state}")


def save(picture: Picture, path: Path) -> None:
    """Write a picture; an old file stays until the new one is complete.

    Raises:
        EnginebayError: It cannot be written.
    """
    from PIL import Image

    half = path.with_name(f".{path.name}.half")
    try:
        picture.save(half, format=Image.registered_extensions()[path.suffix.lower()])
        half.replace(path)
    except (OSError, ValueError) as err:
        half.unlink(missing_ok=True)
        raise EnginebayError(f"'{path}' cannot be written: {err}") from err


def paint_boxes(picture: Picture, found: Sequence[Box]) -> Picture:
    """Paint boxes and their names on a picture."""
    from PIL import ImageDraw

    canvas, size = ImageDraw.Draw(picture), _text_size(picture)
    for one in reversed(found):  # the best lies on top
        edges = (one.left, one.top, one.right, one.bottom)
        canvas.rectangle(edges, outline=_colour(one.index), width=max(1, size // 6))
        _label(canvas, (one.left, one.top), f"{one.name} {one.score:.2f}", one.index, size)
    return picture


def paint_labels(picture: Picture, labels: Sequence[tuple[str, int]]) -> Picture:
    """Write texts in the upper left corner, each on a bar of its class's colour."""
    from PIL import ImageDraw

    canvas, size = ImageDraw.Draw(picture), _text_size(picture)
    for row, (text, index) in enumerate(labels):
        _label(canvas, (0, size * (2 + 1.6 * row)), text, index, size)
    return picture


def paint_mask(picture: Picture, mask: NumpyArray) -> Picture:
    """Lay the colours of classes over a picture, half transparent.

    Args:
        picture: The picture.
        mask: Its classes' numbers, ``H×W``; negative where the picture stays as it is.
    """
    import numpy as np
    from PIL import Image

    colours = np.asarray(picture).copy()
    for index in np.unique(mask[mask >= 0]).tolist():
        colours[mask == index] = _colour(index)
    return Image.blend(picture, Image.fromarray(colours), 0.5)


def paint_points(
    picture: Picture,
    points: Mapping[int, tuple[float, float]],
    lines: Sequence[tuple[int, int]],
) -> Picture:
    """Paint points by their numbers, and the lines between them."""
    from PIL import ImageDraw

    canvas, size = ImageDraw.Draw(picture), max(1, _text_size(picture) // 5)
    for start, end in lines:
        if start in points and end in points:
            canvas.line((*points[start], *points[end]), fill=_colour(start), width=size)
    for index, (x, y) in points.items():
        canvas.ellipse((x - size, y - size, x + size, y + size), fill=_colour(index))
    return picture


def _text_size(picture: Picture) -> int:
    return max(10, min(picture.size) // 28)


def _label(
    canvas: ImageDraw, corner: tuple[float, float], text: str, index: int, size: int
) -> None:
    """Write a text on a bar of its class's colour, above a corner where there is room."""
    from PIL.ImageFont import load_default

    font = load_default(size)
    left, top = corner[0], max(0, corner[1] - size * 1.4)
    box = canvas.textbbox((left + size // 4, top), text, font)
    canvas.rectangle((left, top, box[2] + size // 4, top + size * 1.4), fill=_colour(index))
    canvas.text((left + size // 4, top), text, fill="white", font=font)


def _colour(index: int) -> tuple[int, int, int]:
    red, green, blue = hsv_to_rgb(index * _TURN % 1, 0.9, 0.7)
    return int(red * 255), int(green * 255), int(blue * 255)
