"""Draws results on images: boxes, labels, masks and points."""

from __future__ import annotations

from colorsys import hsv_to_rgb
from typing import TYPE_CHECKING

from enginebay.authors.files import replacement
from enginebay.errors import EnginebayError, Hint, UsageError, argument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as PilImage
    from PIL.ImageDraw import ImageDraw

    from enginebay.authors.arrays import NumpyArray
    from enginebay_vision.results import Box, FoundInstances

#: The step between the hues of consecutive classes: multiples of the golden ratio never repeat.
_HUE_STEP = 0.618034


def check_drawing(path: Path) -> None:
    """Check that an image file can be written, before the model runs.

    Raises:
        UsageError: The folder is missing, or Pillow cannot write the format.
    """
    from PIL import Image

    kind = Image.registered_extensions().get(path.suffix.lower())
    if kind not in Image.SAVE:
        raise UsageError(
            f"'{path}' cannot be written: Pillow does not write the image format '{path.suffix}'",
            hint=Hint("{}", argument("draw", f"{path.stem or 'out'}.png")),
        )
    if path.is_dir() or not path.parent.is_dir():
        state = "it is a folder" if path.is_dir() else f"no such folder: '{path.parent}'"
        raise UsageError(f"'{path}' cannot be written: {state}")


def save_image(image: PilImage, path: Path) -> None:
    """Write an image file atomically, in the format of the path's suffix."""
    from PIL import Image

    try:
        with replacement(path) as file:
            # With a format: Pillow cannot derive it from an open file.
            image.save(file, format=Image.registered_extensions()[path.suffix.lower()])
    except (OSError, ValueError) as err:
        raise EnginebayError(f"'{path}' cannot be written: {err}") from err


def paint_boxes(image: PilImage, boxes: Sequence[Box]) -> PilImage:
    """Paint boxes, class names and scores on an image, the first box on top; return the image."""
    from PIL import ImageDraw

    canvas, size = ImageDraw.Draw(image), _text_size(image)
    # The first box has the highest score: painted last, it is not covered by others.
    for box in reversed(boxes):
        edges = (box.left, box.top, box.right, box.bottom)
        canvas.rectangle(edges, outline=_class_colour(box.index), width=max(1, size // 6))
        _draw_label(canvas, (box.left, box.top), f"{box.name} {box.score:.2f}", box.index, size)
    return image


def paint_labels(image: PilImage, labels: Sequence[tuple[str, int]]) -> PilImage:
    """Write texts in class colours in an image's upper left corner; return the image."""
    from PIL import ImageDraw

    canvas, size = ImageDraw.Draw(image), _text_size(image)
    for row, (text, index) in enumerate(labels):
        _draw_label(canvas, (0, size * (2 + 1.6 * row)), text, index, size)
    return image


def paint_mask(image: PilImage, mask: NumpyArray) -> PilImage:
    """Return the image blended with the colour of each pixel's class; -1 means no class."""
    import numpy as np
    from PIL import Image

    colours = np.asarray(image).copy()
    for index in np.unique(mask[mask >= 0]).tolist():
        colours[mask == index] = _class_colour(index)
    return Image.blend(image, Image.fromarray(colours), 0.5)


def paint_instances(image: PilImage, found: FoundInstances) -> PilImage:
    """Return the image with masks, boxes, class names and scores, the first instance on top."""
    import numpy as np

    classes = np.full(found.size[::-1], -1, np.int64)
    for instance, mask in zip(reversed(found), reversed(found.masks), strict=True):
        mask.select(classes)[mask.pixels] = instance.index
    return paint_boxes(paint_mask(image, classes), found)


def paint_points(
    image: PilImage,
    points: Mapping[int, tuple[float, float]],
    lines: Sequence[tuple[int, int]],
) -> PilImage:
    """Paint points, and a line for each pair of point indices, on an image; return the image."""
    from PIL import ImageDraw

    canvas, size = ImageDraw.Draw(image), max(1, _text_size(image) // 5)
    for start, end in lines:
        if start in points and end in points:
            canvas.line((*points[start], *points[end]), fill=_class_colour(start), width=size)
    for index, (x, y) in points.items():
        canvas.ellipse((x - size, y - size, x + size, y + size), fill=_class_colour(index))
    return image


def _text_size(image: PilImage) -> int:
    return max(10, min(image.size) // 28)


def _draw_label(
    canvas: ImageDraw, corner: tuple[float, float], text: str, index: int, size: int
) -> None:
    """Write a text on a rectangle in the colour of a class, above and right of ``corner``."""
    from PIL.ImageFont import load_default

    font = load_default(size)
    # At the image's upper edge the text is below the point.
    left, top = corner[0], max(0, corner[1] - size * 1.4)
    box = canvas.textbbox((left + size // 4, top), text, font)
    canvas.rectangle((left, top, box[2] + size // 4, top + size * 1.4), fill=_class_colour(index))
    canvas.text((left + size // 4, top), text, fill="white", font=font)


def _class_colour(index: int) -> tuple[int, int, int]:
    red, green, blue = hsv_to_rgb(index * _HUE_STEP % 1, 0.9, 0.7)
    return int(red * 255), int(green * 255), int(blue * 255)
