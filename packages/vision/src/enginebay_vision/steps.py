"""The geometric steps of preprocessing, as data and as arithmetic."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from enginebay.errors import UsageError


class Placement(NamedTuple):
    """The position of an image after some steps.

    Attributes:
        width: The width of the result in pixels.
        height: The height of the result in pixels.
        scale_x: The horizontal scale factor.
        scale_y: The vertical scale factor.
        left: The position of the image's left edge in pixels; negative if it was cropped.
        top: The position of the image's upper edge.
    """

    width: int
    height: int
    scale_x: float = 1.0
    scale_y: float = 1.0
    left: float = 0.0
    top: float = 0.0


class Resize(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="resize"
):
    """Resize an image.

    Attributes:
        height: The height in pixels.
        width: The width in pixels.
        fit: ``fill``: to exactly this size. ``cover``: to the smallest size with the image's
            aspect ratio that covers it; if height and width are equal, the shorter side gets
            that length. ``contain``: to the largest size with the image's aspect ratio that fits.
        rounding: The rounding of the longer side of ``cover``, or the shorter side of
            ``contain``: ``down``, or ``nearest``, which rounds halves to even numbers.
        interpolation: The filter, as defined by Pillow.
        antialias: True widens the filter when an image becomes smaller, like Pillow. False
            interpolates between the nearest pixels, like OpenCV; only for ``bilinear``, and
            without effect for ``nearest``.

    Example:
        >>> Resize(256, 256, fit="cover").place(Placement(640, 480))[:2]
        (341, 256)
    """

    height: int
    width: int
    fit: Literal["fill", "cover", "contain"] = "fill"
    rounding: Literal["down", "nearest"] = "down"
    interpolation: Literal["nearest", "bilinear", "bicubic", "lanczos"] = "bilinear"
    antialias: bool = True

    def __post_init__(self) -> None:
        _check_size("Resize", self.height, self.width)
        if not self.antialias and self.interpolation not in ("nearest", "bilinear"):
            raise UsageError(
                f"Resize: {self.interpolation} requires antialias",
                hint="antialias=True, or interpolation='bilinear'",
            )

    def place(self, picture: Placement) -> Placement:
        """Compute the position of an image after this step."""
        width, height = self._target_size(picture.width, picture.height)
        x, y = width / picture.width, height / picture.height
        return Placement(
            *(width, height),
            *(picture.scale_x * x, picture.scale_y * y, picture.left * x, picture.top * y),
        )

    def _target_size(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height for an image of this size."""
        if self.fit == "fill":
            return self.width, self.height
        wider = width * self.height >= height * self.width
        if wider == (self.fit == "contain"):
            return self.width, self._round_size(height * self.width, width)
        return self._round_size(width * self.height, height), self.height

    def _round_size(self, dividend: int, divisor: int) -> int:
        exact = dividend // divisor if self.rounding == "down" else round(dividend / divisor)
        return max(1, exact)


class Crop(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="crop"):
    """Crop an image to a size; pad it if it is smaller.

    Attributes:
        height: The height in pixels.
        width: The width in pixels.
        at: ``middle`` for the centre of the image, ``corner`` for its upper left corner.
        rounding: The rounding at the left and the top for an odd number of pixels: ``nearest``
            crops an even number and pads the smaller half, like torchvision; ``down`` crops the
            smaller half and pads the larger half, like transformers without torchvision.
        fill: The padding colour, 0 to 255: red, green, blue.

    Example:
        >>> Crop(224, 224).place(Placement(341, 256))
        Placement(width=224, height=224, scale_x=1.0, scale_y=1.0, left=-58.0, top=-16.0)
    """

    height: int
    width: int
    at: Literal["middle", "corner"] = "middle"
    rounding: Literal["down", "nearest"] = "nearest"
    fill: tuple[int, int, int] = (0, 0, 0)

    def __post_init__(self) -> None:
        _check_size("Crop", self.height, self.width)
        if not all(isinstance(value, int) and 0 <= value <= 255 for value in self.fill):
            raise UsageError(f"Crop: fill is {self.fill}; expected three numbers from 0 to 255")

    def place(self, picture: Placement) -> Placement:
        """Compute the position of an image after this step."""
        left = self._crop_offset(picture.width, self.width)
        top = self._crop_offset(picture.height, self.height)
        return picture._replace(
            width=self.width, height=self.height, left=picture.left + left, top=picture.top + top
        )

    def _crop_offset(self, size: int, target: int) -> float:
        if self.at == "corner":
            return 0.0
        if self.rounding == "down":
            return float(-((size - target) // 2))
        return float((target - size) // 2 if size < target else -round((size - target) / 2))


def _check_size(step: str, height: int, width: int) -> None:
    for name, value in (("height", height), ("width", width)):
        if not isinstance(value, int) or value < 1:
            raise UsageError(f"{step}: {name} is {value!r}; expected a whole number from 1")
