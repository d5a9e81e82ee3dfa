"""The geometric steps of preprocessing: resizing and cropping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from enginebay.errors import UsageError

if TYPE_CHECKING:
    from enginebay.authors.arrays import NumpyArray


class Placement(NamedTuple):
    """The position of the original image in the result of preprocessing steps.

    Attributes:
        width: The width of the result in pixels.
        height: The height of the result in pixels.
        scale_x: The horizontal scale factor from the original image to the result.
        scale_y: The vertical scale factor.
        left: The x coordinate of the original image's left edge in the result; negative if cropped.
        top: The y coordinate of the original image's upper edge in the result.
    """

    width: int
    height: int
    scale_x: float = 1.0
    scale_y: float = 1.0
    left: float = 0.0
    top: float = 0.0

    def to_image(self, points: NumpyArray) -> NumpyArray:
        """Convert points ``…×2``, x and y, in the result to points in the original image."""
        moved = points - [self.left, self.top]
        found: NumpyArray = moved / [self.scale_x, self.scale_y]
        return found


class Resize(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="resize"
):
    """The step that resizes an image.

    Attributes:
        height: The target height in pixels.
        width: The target width in pixels.
        fit: ``fill`` resizes to exactly the target size. ``cover`` and ``contain`` preserve the
            aspect ratio: ``cover`` resizes to the smallest size that covers the target size,
            ``contain`` to the largest size that fits into the target size.
        rounding: The rounding of the side that is computed from the aspect ratio: ``down``, or
            ``nearest``, which rounds halves to even numbers.
        interpolation: The name of Pillow's filter.
        antialias: True to widen the filter when an image becomes smaller, like Pillow; False to
            interpolate between adjacent pixels, like OpenCV. ``bicubic`` and ``lanczos`` require
            True, and ``nearest`` ignores this option.

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
                f"Resize: interpolation '{self.interpolation}' requires antialias=True",
                hint="set antialias=True, or interpolation='bilinear'",
            )

    def place(self, image: Placement) -> Placement:
        """Return the original image's position after this step; ``image`` is that before it."""
        width, height = self._target_size(image.width, image.height)
        x, y = width / image.width, height / image.height
        return Placement(
            width,
            height,
            *(image.scale_x * x, image.scale_y * y, image.left * x, image.top * y),
        )

    def _target_size(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height to which an image of ``width``×``height`` is resized."""
        if self.fit == "fill":
            return self.width, self.height
        is_wider = width * self.height >= height * self.width
        if is_wider == (self.fit == "contain"):
            return self.width, self._round_size(height * self.width, width)
        return self._round_size(width * self.height, height), self.height

    def _round_size(self, dividend: int, divisor: int) -> int:
        size = dividend // divisor if self.rounding == "down" else round(dividend / divisor)
        return max(1, size)  # the short side of an extreme aspect ratio would be 0


class Crop(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="crop"):
    """The step that crops an image to a size, or pads a smaller image.

    Attributes:
        height: The height of the result in pixels.
        width: The width of the result in pixels.
        at: The part of the image to use: ``middle``, or ``corner`` for the upper left corner.
        rounding: How many pixels are cropped or padded at the left and at the top if the number for
            both sides is odd, such as 5, which leaves 2 or 3. ``nearest`` crops the even number and
            pads the smaller number, like torchvision. ``down`` crops the smaller number and pads
            the larger number, like transformers without torchvision.
        fill: The colour of the padding: red, green and blue from 0 to 255.

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
            raise UsageError(f"Crop: 'fill' is {self.fill}; expected three numbers from 0 to 255")

    def place(self, image: Placement) -> Placement:
        """Return the original image's position after this step; ``image`` is that before it."""
        left = self._crop_offset(image.width, self.width)
        top = self._crop_offset(image.height, self.height)
        return image._replace(
            width=self.width, height=self.height, left=image.left + left, top=image.top + top
        )

    def _crop_offset(self, size: int, target: int) -> float:
        """Return the left or upper edge of the image in the result; negative if it is cropped."""
        if self.at == "corner":
            return 0.0
        if self.rounding == "down":
            # Floor division of a negative number rounds away from 0: padding gets the larger half.
            return float(-((size - target) // 2))
        # round() rounds halves to even numbers, as torchvision's center_crop does.
        return float((target - size) // 2 if size < target else -round((size - target) / 2))


def _check_size(step: str, height: int, width: int) -> None:
    for name, value in (("height", height), ("width", width)):
        # msgspec checks types only when it decodes a record.
        if not isinstance(value, int) or value < 1:
            raise UsageError(f"{step}: '{name}' is {value!r}; expected a whole number above 0")
