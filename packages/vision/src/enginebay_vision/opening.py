"""A picture as everybody sees it: upright, with 8 bits a channel."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from enginebay.errors import EnginebayError, InputError, first_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL.Image import Image as Picture

    from enginebay.authors import NumpyArray


_FILTERS = Lock()


def open_image(image: Any, channels: str = "RGB") -> Picture:
    """Read a picture, turned as its EXIF data say.

    What is transparent keeps the colour that lies under it, as in Pillow's ``convert("RGB")``.
    16 bits become 8.

    Args:
        image: A path, or an image of Pillow's.
        channels: ``RGB``, or ``L`` for grey.

    Raises:
        InputError: There is no such file, it is no picture, or too large.
    """
    from PIL import Image

    if isinstance(image, Image.Image):
        with _one_error("the picture"):
            return _converted(image, channels, "the picture")
    path = _checked(image)
    with _one_error(f"'{path}'"), _opened(path) as opened:
        return _converted(opened, channels, f"'{path}'")


def open_numbers(path: Path, size: tuple[int, int]) -> NumpyArray:
    """Read a picture whose pixels are numbers and no colours: of classes, or distances.

    Args:
        path: A file with 8 or 16 bits a pixel, or with a palette.
        size: The width and height that it must have.

    Returns:
        ``H×W int32``.

    Raises:
        InputError: It cannot be read, has colours, or another size.
    """
    import numpy as np

    with _one_error(f"'{path}'"), _opened(_checked(path)) as opened:
        if opened.mode not in ("1", "L", "P", "I") and not opened.mode.startswith("I;16"):
            raise InputError(
                f"'{path}' has colours, {opened.mode}; wanted a number for each pixel",
                hint="save it as PNG, grey or with a palette",
            )
        if opened.size != size:
            found, wanted = (f"{width}x{height}" for width, height in (opened.size, size))
            raise InputError(f"'{path}' has {found} pixels, and its picture {wanted}")
        return np.asarray(opened).astype(np.int32)


def _checked(image: Any) -> Path:
    """The path of a file."""
    if not isinstance(image, str | PathLike):
        raise InputError(
            f"a picture is of type {type(image).__name__}, wanted a path or an image of Pillow's",
            hint="PIL.Image.fromarray makes one of an array, H×W×3 uint8",
        )
    path = Path(image)
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"'{path}' {state}; wanted a picture")
    return path


def _opened(path: Path) -> Picture:
    """Open a file; Pillow's warning of a huge picture is an error."""
    from PIL import Image

    # The filters belong to all threads, and two that change them at a time leave them changed.
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        opened: Picture = Image.open(path)
        return opened


@contextmanager
def _one_error(name: str) -> Iterator[None]:
    """Turn what Pillow raises into one line about the picture."""
    from PIL import Image

    try:
        yield
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as err:
        raise InputError(
            f"{name} has more than {Image.MAX_IMAGE_PIXELS} pixels",
            hint="make it smaller first",
        ) from err
    except EnginebayError:
        raise
    except Exception as err:  # which one a broken file raises depends on the format
        why = first_line(err).replace(name, "it")
        raise InputError(f"{name} cannot be read as a picture: {why}") from err


def _converted(image: Picture, channels: str, name: str) -> Picture:
    from PIL.ImageOps import exif_transpose

    upright = exif_transpose(image)
    mode = upright.mode
    if mode in ("I", "F"):
        raise InputError(
            f"{name} holds 32-bit numbers, and nothing says which of them is white",
            hint="save it with 8 or 16 bits a channel",
        )
    if mode.startswith("I;16"):
        upright = _with_8_bits(upright)
    if "transparency" in upright.info:
        upright = upright.convert("RGBA")  # Pillow warns of another way
    return upright if upright.mode == channels else upright.convert(channels)


def _with_8_bits(image: Picture) -> Picture:
    """Grey with 16 bits as grey with 8: Pillow's own conversion cuts off above 255."""
    import numpy as np
    from PIL import Image

    return Image.fromarray((np.asarray(image).astype(np.float32) / 257).round().astype(np.uint8))
