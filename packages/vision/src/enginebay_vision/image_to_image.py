"""Pictures out of pictures: super-resolution, denoising and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import UsageError
from enginebay_vision.fitting import check_maps
from enginebay_vision.found import FoundMap, MadePicture
from enginebay_vision.opening import open_image
from enginebay_vision.outputs import channels_first
from enginebay_vision.task import OneOutputTask
from enginebay_vision.truth.files import find_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as Picture

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray


class ImageToImage(OneOutputTask, frozen=True, kw_only=True, tag="image-to-image"):
    """The model makes a picture of a picture: a larger one, or one without noise.

    The output is a picture as the input is: with the same channels, layout, scale, mean and std,
    and a multiple of its size.

    Attributes:
        output: The output; empty for the model's first.
    """

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Compare the axes, and the number of channels with the input's."""
        check_maps(output, dims, ("a picture", self.image.layout))
        count = dims[self.image.layout.index("C")]
        if isinstance(count, int) and count != len(self.image.channels):
            raise UsageError(
                f"the task wants a picture of {len(self.image.channels)} channels, "
                f"{self.image.channels}, and the output is {output.describe()}"
            )

    def find_items(self, path: Path) -> list[tuple[Path, Any]]:
        """Pictures, each with the wanted one of the same name."""
        return find_pairs(path, (("lr", "hr"), ("input", "target")))

    def read_truth(self, picture: Picture, annotation: Path) -> tuple[Picture, NumpyArray]:
        """Read the wanted picture: ``H×W×3 uint8``, or ``H×W`` for a grey one."""
        return picture, np.asarray(open_image(annotation, "RGB" if self._colours else "L"))

    @property
    def _colours(self) -> bool:
        return self.image.channels != "L"

    def postprocess(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]
    ) -> FoundMap[MadePicture]:
        """Make the picture.

        Returns:
            Its size; ``array`` is the picture, ``H×W×3 uint8``, or ``H×W`` for a grey one, without
            the fill around it.
        """
        values = channels_first(outputs, self.output, self.image.layout)
        mean, std = (
            np.asarray(each, np.float32)[:, None, None]
            for each in (self.image.mean, self.image.std)
        )
        pixels = ((values * std + mean) / np.float32(self.image.scale)).round().clip(0, 255)
        part = pixels[:, *self._part(size, values.shape[1:])].astype(np.uint8)
        if self.image.channels == "BGR":
            part = part[::-1]
        array = part.transpose(1, 2, 0) if self._colours else part[0]
        return FoundMap([MadePicture(array.shape[1], array.shape[0])], np.ascontiguousarray(array))

    def _part(self, size: tuple[int, int], made: tuple[int, ...]) -> tuple[slice, slice]:
        """The rows and columns of the output that were made of the picture."""
        placed = self.image.place(*size)
        return (
            _covered(placed.top, size[1] * placed.scale_y, placed.height, made[0]),
            _covered(placed.left, size[0] * placed.scale_x, placed.width, made[1]),
        )

    def paint(self, picture: Picture, found: FoundMap[MadePicture]) -> Picture:  # noqa: ARG002  # as every task's
        """Return the picture that was made."""
        from PIL import Image

        made: Picture = Image.fromarray(found.array)
        return made


def _covered(start: float, length: float, size: int, made: int) -> slice:
    """The places of an output that belong to a part of the input, inside of it."""
    ends = (max(0.0, start), min(float(size), start + length))
    first, last = (round(end * made / size) for end in ends)
    return slice(first, last)
