"""Drawing of results on images."""

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
    from enginebay_vision.results import Box

#: The step between the hues of consecutive classes: with the golden ratio, hues never repeat.
_HUE_STEP = 0.618034


def check_drawing(path: Path) -> None:
    """Check that a file can be written, before the model runs.

    Raises:
        UsageError: The folder is missing, or Pillow cannot write the format.
    """
    from PIL import Image

    kind = Image.registered_extensions().get(path.suffix.lower())
    if kind not in Image.SAVE:
        raise UsageError(
            f"'{path}' cannot be written: Pillow does not write the image format '{path.suffix}'",
            hint=f"--draw {path.stem or 'out'}.png",
        )
    if path.is_dir() or not path.parent.is_dir():
        state = "it is a folder" if path.is_dir() else f"no such folder: '{path.parent}'"
        raise UsageError(f"'{path}' cannot be written: {state}")


def save_image(picture: Picture, path: Path) -> None:
    """Write an image atomically.

    Raises:
        EnginebayError: The file cannot be written.
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
    """Paint boxes and their names on an image."""
    from PIL import ImageDraw

    canvas, size = ImageDraw.Draw(picture), _text_size(picture)
    for box in reversed(found):  # the best one last, on top
        edges = (box.left, box.top, box.right, box.bottom)
        canvas.rectangle(edges, outline=_class_colour(box.index), width=max(1, size // 6))
        _draw_label(canvas, (box.left, box.top), f"{box.name} {box.score:.2f}", box.index, size)
    return picture


def paint_labels(picture: Picture, labels: Sequence[tuple[str, int]]) -> Picture:
    """Write texts in the upper left corner, each on a bar in the colour of its class."""
    from PIL import ImageDraw

    canvas, size = ImageDraw.Draw(picture), _text_size(picture)
    for row, (text, index) in enumerate(labels):
        _draw_label(canvas, (0, size * (2 + 1.6 * row)), text, index, size)
    return picture


def paint_mask(picture: Picture, mask: NumpyArray) -> Picture:
    """Blend the colours of classes into an image.

    Args:
        picture: The image.
        mask: The class index of each pixel, ``H×W``; negative for unchanged pixels.
    """
    import numpy as np
    from PIL import Image

    colours = np.asarray(picture).copy()
    for index in np.unique(mask[mask >= 0]).tolist():
        colours[mask == index] = _class_colour(index)
    return Image.blend(picture, Image.fromarray(colours), 0.5)


def paint_points(
    picture: Picture,
    points: Mapping[int, tuple[float, float]],
    lines: Sequence[tuple[int, int]],
) -> Picture:
    """Paint points by index, and the lines between them."""
    from PIL import ImageDraw

    canvas, size = ImageDraw.Draw(picture), max(1, _text_size(picture) // 5)
    for start, end in lines:
        if start in points and end in points:
            canvas.line((*points[start], *points[end]), fill=_class_colour(start), width=size)
    for index, (x, y) in points.items():
        canvas.ellipse((x - size, y - size, x + size, y + size), fill=_class_colour(index))
    return picture


def _text_size(picture: Picture) -> int:
    return max(10, min(picture.size) // 28)


def _draw_label(
    canvas: ImageDraw, corner: tuple[float, float], text: str, index: int, size: int
) -> None:
    """Write a text on a bar in the colour of its class, above a corner if there is room."""
    from PIL.ImageFont import load_default

    font = load_default(size)
    left, top = corner[0], max(0, corner[1] - size * 1.4)
    box = canvas.textbbox((left + size // 4, top), text, font)
    canvas.rectangle((left, top, box[2] + size // 4, top + size * 1.4), fill=_class_colour(index))
    canvas.text((left + size // 4, top), text, fill="white", font=font)


def _class_colour(index: int) -> tuple[int, int, int]:
    red, green, blue = hsv_to_rgb(index * _HUE_STEP % 1, 0.9, 0.7)
    return int(red * 255), int(green * 255), int(blue * 255)
