"""Preprocessing with Pillow and NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.authors import numpy_dtype
from enginebay.errors import InputError
from enginebay_vision.image_files import open_image
from enginebay_vision.maps import interpolate_axis
from enginebay_vision.steps import Crop, Placement, Resize

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

    from enginebay.authors import NumpyArray
    from enginebay_vision.image_input import ImageInput


def make_input_array(spec: ImageInput, image: Any) -> NumpyArray:
    """Compute a network's input from an image.

    Args:
        spec: The preprocessing.
        image: A path, or an image of Pillow's.
    """
    from PIL import Image

    picture = open_image(image, "L" if spec.channels == "L" else "RGB")
    limit = Image.MAX_IMAGE_PIXELS
    for step in spec.steps:
        placed = step.place(Placement(picture.width, picture.height))
        # Beyond the limit, for example: a line of pixels, resized to a height of 256.
        if limit and placed.width * placed.height > limit:
            raise InputError(
                f"an image of {picture.width}x{picture.height} pixels would become one of "
                f"{placed.width}x{placed.height}, which is more than Pillow's limit"
            )
        picture = (
            _resize_image(step, picture, placed)
            if isinstance(step, Resize)
            else _crop_image(step, picture, placed)
        )
    return _normalise_pixels(spec, np.asarray(picture))


def _resize_image(step: Resize, picture: Picture, placed: Placement) -> Picture:
    from PIL import Image

    if not step.antialias and step.interpolation == "bilinear":
        pixels = np.asarray(picture).astype(np.float32)
        for axis, size in enumerate((placed.height, placed.width)):
            places = (np.arange(size) + 0.5) * pixels.shape[axis] / size - 0.5
            pixels = interpolate_axis(pixels, places, axis)
        resized: Picture = Image.fromarray(pixels.round().astype(np.uint8))
        return resized
    kernel = Image.Resampling[step.interpolation.upper()]
    return picture.resize((placed.width, placed.height), kernel)


def _crop_image(step: Crop, picture: Picture, placed: Placement) -> Picture:
    from PIL import Image
    from PIL.ImageColor import getcolor

    left, top = int(placed.left), int(placed.top)
    red, green, blue = step.fill
    colour = getcolor(f"rgb({red},{green},{blue})", picture.mode)
    canvas: Picture = Image.new(picture.mode, (step.width, step.height), colour)
    canvas.paste(picture, (left, top))
    return canvas


def _normalise_pixels(spec: ImageInput, pixels: NumpyArray) -> NumpyArray:
    """Convert pixels, ``H×W`` or ``H×W×3 uint8``, to the input."""
    values = pixels[..., None] if pixels.ndim == 2 else pixels
    if spec.channels == "BGR":
        values = values[..., ::-1]
    dtype = numpy_dtype(spec.dtype or "float32")
    if dtype != np.uint8:
        mean, std = (np.asarray(numbers, np.float32) for numbers in (spec.mean, spec.std))
        values = ((values * np.float32(spec.scale) - mean) / std).astype(dtype)
    if spec.layout == "NCHW":
        values = values.transpose(2, 0, 1)
    return np.ascontiguousarray(values[None])
