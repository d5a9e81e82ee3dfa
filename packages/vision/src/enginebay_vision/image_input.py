"""The preprocessing that converts an image to a network's input."""

from __future__ import annotations

from math import isfinite
from typing import Literal

import msgspec

from enginebay.errors import UsageError
from enginebay_vision.steps import Crop, Placement, Resize


class ImageInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The preprocessing of an image: resizing and cropping, then normalisation of the pixels.

    Each value of the input is ``(pixel · scale − mean) / std``, computed in float32 from pixels
    between 0 and 255.

    Attributes:
        input: The name of the model's input for images; empty for the model's first input.
        steps: The resizing and cropping steps, in order.
        channels: The order of the channels: ``RGB``, ``BGR``, or ``L`` for one grey channel.
        scale: The factor that pixels are multiplied by.
        mean: The mean, subtracted after scaling: one number for each channel, or one for all.
        std: The standard deviation, the divisor: one number for each channel, or one for all.
        layout: The order of the input's axes: ``NCHW`` or ``NHWC``.
        dtype: NumPy's name of the input's dtype; empty for the dtype of the model's input.
            ``uint8`` requires scale 1, mean 0 and std 1.
    """

    input: str = ""
    steps: tuple[Resize | Crop, ...] = ()
    channels: Literal["RGB", "BGR", "L"] = "RGB"
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    dtype: str = ""

    def __post_init__(self) -> None:
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, len(self.channels)):
                raise UsageError(
                    f"'{name}' has {len(values)} numbers; expected one for each channel of "
                    f"{self.channels}, or one for all channels"
                )
        if not all(map(isfinite, (self.scale, *self.mean, *self.std))):
            raise UsageError("'scale', 'mean' or 'std' is infinite or NaN; expected finite numbers")
        if 0 in self.std or self.scale == 0:
            name = "std" if 0 in self.std else "scale"
            raise UsageError(f"'{name}' is 0; expected a number other than 0")
        if self.dtype == "uint8" and (self.scale, {*self.mean}, {*self.std}) != (1, {0}, {1}):
            raise UsageError(
                "dtype 'uint8' cannot be combined with 'scale', 'mean' or 'std'",
                hint="set scale=1, and remove mean and std",
            )

    def place(self, width: int, height: int) -> Placement:
        """Return where an image of ``width``×``height`` pixels lies in the network's input."""
        placed = Placement(width, height)
        for step in self.steps:
            placed = step.place(placed)
        return placed

    @property
    def size(self) -> tuple[int, int] | None:
        """The height and width of the network's input; None if the image determines the size."""
        # Steps that preserve the aspect ratio have different results for these extreme images.
        tall, wide = self.place(1, 999), self.place(999, 1)
        sizes = {(placed.height, placed.width) for placed in (tall, wide)}
        return sizes.pop() if len(sizes) == 1 else None
