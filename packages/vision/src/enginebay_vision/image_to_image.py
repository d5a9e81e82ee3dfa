"""Image-to-image models: super-resolution, denoising and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import UsageError
from enginebay_vision.image_files import open_image
from enginebay_vision.model_checks import check_maps
from enginebay_vision.outputs import read_channels_first
from enginebay_vision.results import FoundMap, MadePicture
from enginebay_vision.task import OneOutputTask
from enginebay_vision.truth.files import find_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as Picture

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray


class ImageToImage(OneOutputTask, frozen=True, kw_only=True, tag="image-to-image"):
    """The model generates an image from an image, such as a larger one or one without noise.

    The output has the channels, layout, scale, mean and std of the input, and a multiple of its
    size.

    Attributes:
        output: The output; empty for the model's first.
    """

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Check the axes and the number of channels of the output."""
        check_maps(output, dims, ("an image", self.image.layout))
        count = dims[self.image.layout.index("C")]
        if isinstance(count, int) and count != len(self.image.channels):
            raise UsageError(
                f"the task expects an image of {len(self.image.channels)} channels, "
                f"{self.image.channels}, but the output is {output.describe()}"
            )

    def find_items(self, path: Path) -> list[tuple[Path, Any]]:
        """Return images, each with the expected image of the same name."""
        return find_pairs(path, (("lr", "hr"), ("input", "target")))

    def read_truth(self, picture: Picture, annotation: Path) -> tuple[Picture, NumpyArray]:
        """Read the expected image: ``H×W×3 uint8``, or ``H×W`` for a grey one."""
        return picture, np.asarray(open_image(annotation, "RGB" if self._colours else "L"))

    @property
    def _colours(self) -> bool:
        return self.image.channels != "L"

    def postprocess(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]
    ) -> FoundMap[MadePicture]:
        """Convert the output to an image.

        Returns:
            The size; ``array`` is the image, ``H×W×3 uint8``, or ``H×W`` for a grey one, without
            the padding around it.
        """
        values = read_channels_first(outputs, self.output, self.image.layout)
        mean, std = (
            np.asarray(values_of_channels, np.float32)[:, None, None]
            for values_of_channels in (self.image.mean, self.image.std)
        )
        pixels = ((values * std + mean) / np.float32(self.image.scale)).round().clip(0, 255)
        part = pixels[:, *self._locate_image(size, values.shape[1:])].astype(np.uint8)
        if self.image.channels == "BGR":
            part = part[::-1]
        array = part.transpose(1, 2, 0) if self._colours else part[0]
        return FoundMap([MadePicture(array.shape[1], array.shape[0])], np.ascontiguousarray(array))

    def _locate_image(self, size: tuple[int, int], made: tuple[int, ...]) -> tuple[slice, slice]:
        """Return the rows and columns of the output that belong to the image."""
        placed = self.image.place(*size)
        return (
            _covered_slice(placed.top, size[1] * placed.scale_y, placed.height, made[0]),
            _covered_slice(placed.left, size[0] * placed.scale_x, placed.width, made[1]),
        )

    def paint(self, picture: Picture, found: FoundMap[MadePicture]) -> Picture:  # noqa: ARG002  # the signature of every task
        """Return the generated image."""
        from PIL import Image

        made: Picture = Image.fromarray(found.array)
        return made


def _covered_slice(start: float, length: float, size: int, made: int) -> slice:
    """Return the part of an output axis that belongs to a part of the input axis."""
    ends = (max(0.0, start), min(float(size), start + length))
    first, last = (round(end * made / size) for end in ends)
    return slice(first, last)
