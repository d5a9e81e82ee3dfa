"""The steps that bring a picture to a network's size, as data and as arithmetic."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from enginebay.errors import UsageError


class Placement(NamedTuple):
    """Where a picture lies after some steps.

    Attributes:
        width: Of what the steps made, in pixels.
        height: The same.
        scale_x: A pixel of the picture is so many wide now.
        scale_y: And so many high.
        left: Where the picture's left edge lies now, in pixels; negative where it was cut off.
        top: Where its upper edge lies.
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
    """Resize a picture.

    Attributes:
        height: In pixels.
        width: In pixels.
        fit: ``fill``: to just this size. ``cover``: to the smallest size of the picture's own
            ratio that covers it; where height and width are equal, the shorter side becomes that
            long. ``contain``: to the largest size of the picture's own ratio that fits into it.
        rounding: How the longer side of ``cover``, or the shorter one of ``contain``, becomes a
            whole number: ``down``, or ``nearest``, where a half goes to the even number.
        interpolation: As Pillow defines them.
        antialias: True widens the filter where a picture becomes smaller, as Pillow does it.
            False interpolates between the nearest pixels, as OpenCV does it; only for
            ``bilinear``, and without meaning for ``nearest``.

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
                f"Resize: {self.interpolation} is not done without antialias",
                hint="antialias=True, or interpolation='bilinear'",
            )

    def place(self, picture: Placement) -> Placement:
        """Compute where a picture lies after this step."""
        width, height = self._size(picture.width, picture.height)
        x, y = width / picture.width, height / picture.height
        return Placement(
            *(width, height),
            *(picture.scale_x * x, picture.scale_y * y, picture.left * x, picture.top * y),
        )

    def _size(self, width: int, height: int) -> tuple[int, int]:
        """The width and height that a picture of this size gets."""
        if self.fit == "fill":
            return self.width, self.height
        wider = width * self.height >= height * self.width
        if wider == (self.fit == "contain"):
            return self.width, self._rounded(height * self.width, width)
        return self._rounded(width * self.height, height), self.height

    def _rounded(self, dividend: int, divisor: int) -> int:
        exact = dividend // divisor if self.rounding == "down" else round(dividend / divisor)
        return max(1, exact)


class Crop(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="crop"):
    """Cut a picture to a size; where it is smaller, fill up around it.

    Attributes:
        height: In pixels.
        width: In pixels.
        at: ``middle`` keeps the middle; ``corner`` keeps the upper left corner.
        rounding: Where an odd number of pixels is cut off or filled up: ``nearest`` cuts off an
            even number at the left and the top, and fills up the smaller one there, as
            torchvision; ``down`` cuts off the smaller one, and fills up the larger one, as
            transformers does it without torchvision.
        fill: The colour around a smaller picture, 0 to 255: red, green, blue.

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
            raise UsageError(f"Crop: fill is {self.fill}, wanted three numbers from 0 to 255")

    def place(self, picture: Placement) -> Placement:
        """Compute where a picture lies after this step."""
        left = self._shift(picture.width, self.width)
        top = self._shift(picture.height, self.height)
        return picture._replace(
            width=self.width, height=self.height, left=picture.left + left, top=picture.top + top
        )

    def _shift(self, found: int, wanted: int) -> float:
        if self.at == "corner":
            return 0.0
        if self.rounding == "down":
            return float(-((found - wanted) // 2))
        return float((wanted - found) // 2 if found < wanted else -round((found - wanted) / 2))


def _check_size(step: str, height: int, width: int) -> None:
    for name, value in (("height", height), ("width", width)):
        if not isinstance(value, int) or value < 1:
            raise UsageError(f"{step}: {name} is {value!r}, wanted a whole number from 1")
