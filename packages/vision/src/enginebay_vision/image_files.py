"""Reads image files, rotated by their EXIF data, with 8 bits per channel."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from enginebay.errors import EnginebayError, InputError, first_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL.Image import Image as PilImage

    from enginebay.authors.arrays import NumpyArray

    #: The path of an image file, or an image that is open already.
    ImageSource: TypeAlias = str | PathLike[str] | PilImage

# Warning filters are global: two threads that change them at once would not restore them.
_FILTER_LOCK = Lock()


def open_image(image: ImageSource, channels: str = "RGB") -> PilImage:
    """Return an image with 8 bits per channel, rotated according to its EXIF data.

    Transparency is dropped as in Pillow's ``convert("RGB")``: a transparent pixel gets its stored
    colour.

    Args:
        image: The path of an image file, or a ``PIL.Image.Image``.
        channels: ``RGB``, or ``L`` for grey.

    Raises:
        InputError: The file does not exist, is not an image, or is too large.
    """
    from PIL import Image

    if isinstance(image, Image.Image):
        # Pillow decodes an opened file only when its pixels are read, so that errors occur here.
        with _wrap_errors("the image"):
            return _convert_image(image, channels, "the image")
    path = _check_path(image)
    with _wrap_errors(f"'{path}'"), _open_file(path) as opened:
        return _convert_image(opened, channels, f"'{path}'")


def open_label_map(path: Path, size: tuple[int, int]) -> NumpyArray:
    """Read an image file whose pixels are numbers, such as class indices or depths.

    Args:
        path: A grey image with 8 or 16 bits per pixel, or an image with a palette; then the numbers
            are the palette indices of the pixels.
        size: The expected width and height in pixels.

    Returns:
        The numbers, ``H×W int32``.

    Raises:
        InputError: The file cannot be read, is a colour image, or has the wrong size.
    """
    import numpy as np

    with _wrap_errors(f"'{path}'"), _open_file(_check_path(path)) as opened:
        if opened.mode not in ("1", "L", "P", "I") and not opened.mode.startswith("I;16"):
            raise InputError(
                f"'{path}' is a colour image, {opened.mode}; expected one number for each pixel",
                hint="save the image as a PNG file in grey or with a palette",
            )
        if opened.size != size:
            found, expected = (f"{width}x{height}" for width, height in (opened.size, size))
            raise InputError(
                f"'{path}' has the wrong size; expected the image's size {expected}, found {found}"
            )
        return np.asarray(opened).astype(np.int32)


def _check_path(image: object) -> Path:
    if not isinstance(image, str | PathLike):
        raise InputError(
            f"wrong type of image; expected a path or a PIL.Image, found {type(image).__name__}",
            hint="convert an array (H×W×3, uint8) with PIL.Image.fromarray",
        )
    path = Path(image)
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"'{path}' {state}; expected an image")
    return path


def _open_file(path: Path) -> PilImage:
    from PIL import Image

    # Pillow only warns about an image above its limit, and raises above twice the limit.
    with _FILTER_LOCK, warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        opened: PilImage = Image.open(path)
        return opened


@contextmanager
def _wrap_errors(name: str) -> Iterator[None]:
    """Convert exceptions of Pillow to an ``InputError`` about the image ``name``."""
    from PIL import Image

    try:
        yield
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as err:
        raise InputError(
            f"{name} has more than {Image.MAX_IMAGE_PIXELS} pixels",
            hint="reduce the size of the image",
        ) from err
    except EnginebayError:  # an error about the image already
        raise
    except Exception as err:  # the type depends on the format
        # Pillow repeats the path, which the message starts with.
        why = first_line(err).replace(name, "it")
        raise InputError(f"{name} cannot be read as an image: {why}") from err


def _convert_image(image: PilImage, channels: str, name: str) -> PilImage:
    from PIL.ImageOps import exif_transpose

    upright = exif_transpose(image)
    mode = upright.mode
    if mode in ("I", "F"):
        raise InputError(
            f"{name} contains 32-bit numbers, for which the value of white is unknown",
            hint="save the image with 8 or 16 bits per channel",
        )
    if mode.startswith("I;16"):
        upright = _reduce_to_8_bits(upright)
    if "transparency" in upright.info:
        upright = upright.convert("RGBA")  # Pillow warns about other conversions
    return upright if upright.mode == channels else upright.convert(channels)


def _reduce_to_8_bits(image: PilImage) -> PilImage:
    import numpy as np
    from PIL import Image

    # Not Pillow's conversion, which clips values above 255. 65535 / 257 is 255.
    return Image.fromarray((np.asarray(image).astype(np.float32) / 257).round().astype(np.uint8))
