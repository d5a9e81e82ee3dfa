"""Computes a network's input from an image, with Pillow and NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from enginebay.authors.arrays import numpy_dtype
from enginebay.errors import InputError
from enginebay_vision.image_files import open_image
from enginebay_vision.maps import interpolate_axis
from enginebay_vision.steps import Crop, Placement, Resize

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

    from enginebay.authors.arrays import NumpyArray
    from enginebay_vision.image_files import ImageSource
    from enginebay_vision.image_input import ImageInput


def make_input_array(spec: ImageInput, source: ImageSource) -> NumpyArray:
    """Compute a network's input from an image.

    Raises:
        InputError: The image cannot be read, or a step would make it larger than Pillow's limit.
    """
    from PIL import Image

    image = open_image(source, "L" if spec.channels == "L" else "RGB")
    limit = Image.MAX_IMAGE_PIXELS  # None if the caller has disabled Pillow's limit
    for step in spec.steps:
        placed = step.place(Placement(image.width, image.height))
        # For example, a line of 4000×1 pixels that is resized to a height of 256.
        if limit and placed.width * placed.height > limit:
            raise InputError(
                f"an image of {image.width}x{image.height} pixels would become "
                f"{placed.width}x{placed.height} pixels, which is more than Pillow's limit"
            )
        image = (
            _resize_image(step, image, placed)
            if isinstance(step, Resize)
            else _crop_image(step, image, placed)
        )
    return _normalise_pixels(spec, np.asarray(image))


def _resize_image(step: Resize, image: PilImage, placed: Placement) -> PilImage:
    from PIL import Image

    if not step.antialias and step.interpolation == "bilinear":
        # By NumPy: Pillow's filters always antialias. As in PyTorch's interpolate(mode="bilinear").
        pixels = np.asarray(image).astype(np.float32)
        for axis, size in enumerate((placed.height, placed.width)):
            positions = (np.arange(size) + 0.5) * pixels.shape[axis] / size - 0.5
            pixels = interpolate_axis(pixels, positions, axis)
        resized: PilImage = Image.fromarray(pixels.round().astype(np.uint8))
        return resized
    kernel = Image.Resampling[step.interpolation.upper()]
    return image.resize((placed.width, placed.height), kernel)


def _crop_image(step: Crop, image: PilImage, placed: Placement) -> PilImage:
    from PIL import Image
    from PIL.ImageColor import getcolor

    left, top = int(placed.left), int(placed.top)
    red, green, blue = step.fill
    # In the image's mode: a grey image is filled with the brightness of the colour.
    colour = getcolor(f"rgb({red},{green},{blue})", image.mode)
    canvas: PilImage = Image.new(image.mode, (step.width, step.height), colour)
    canvas.paste(image, (left, top))  # Pillow clips the image to the canvas
    return canvas


def _normalise_pixels(spec: ImageInput, pixels: NumpyArray) -> NumpyArray:
    """Convert pixels, ``H×W`` or ``H×W×3 uint8``, to the network's input with a batch of one."""
    values = pixels[..., None] if pixels.ndim == 2 else pixels
    if spec.channels == "BGR":
        values = values[..., ::-1]
    dtype = numpy_dtype(spec.dtype or "float32")
    if dtype != np.uint8:  # whose pixels stay unchanged, as ImageInput checks
        mean, std = (np.asarray(numbers, np.float32) for numbers in (spec.mean, spec.std))
        values = ((values * np.float32(spec.scale) - mean) / std).astype(dtype)
    if spec.layout == "NCHW":
        values = values.transpose(2, 0, 1)
    return np.ascontiguousarray(values[None])
