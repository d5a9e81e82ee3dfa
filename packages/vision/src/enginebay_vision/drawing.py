"""A picture with what was found in it."""

from __future__ import annotations

from colorsys import hsv_to_rgb
from typing import TYPE_CHECKING, Any

from enginebay.errors import EnginebayError, UsageError
from enginebay_vision.found import Box
from enginebay_vision.opening import open_image

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from PIL.ImageDraw import ImageDraw

    from enginebay_vision.found import RankedClass

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


def draw(image: Any, found: Sequence[Box | RankedClass], path: Path) -> None:
    """Write a picture with boxes and their names, or with the name of its best class.

    Args:
        image: The path of the picture, or an image of Pillow's.
        found: What a task's ``postprocess`` returned.
        path: The file; an old one stays until the new one is complete.

    Raises:
        EnginebayError: It cannot be written.
    """
    from PIL import Image, ImageDraw

    picture = open_image(image).copy()
    canvas = ImageDraw.Draw(picture)
    size = max(10, min(picture.size) // 28)
    for one in reversed(found):  # the best lies on top
        if isinstance(one, Box):
            edges = (one.left, one.top, one.right, one.bottom)
            canvas.rectangle(edges, outline=_colour(one.index), width=max(1, size // 6))
            _label(canvas, (one.left, one.top), f"{one.name} {one.score:.2f}", one.index, size)
    if found and not isinstance(found[0], Box):
        best = found[0]
        _label(canvas, (0, size * 2), f"{best.name} {best.probability:.2f}", best.index, size)
    half = path.with_name(f".{path.name}.half")
    try:
        picture.save(half, format=Image.registered_extensions()[path.suffix.lower()])
        half.replace(path)
    except (OSError, ValueError) as err:
        half.unlink(missing_ok=True)
        raise EnginebayError(f"'{path}' cannot be written: {err}") from err


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
