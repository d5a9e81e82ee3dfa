"""Image-to-image models, such as super-resolution and denoising."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from enginebay.errors import UsageError
from enginebay_vision.image_files import open_image
from enginebay_vision.model_checks import check_maps
from enginebay_vision.outputs import read_channels_first
from enginebay_vision.results import FoundMap, MadePicture
from enginebay_vision.task import OneOutputTask
from enginebay_vision.truth.files import find_image_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as PilImage

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray


class ImageToImage(OneOutputTask, frozen=True, kw_only=True, tag="image-to-image"):
    """Image to image: the model generates an image, such as an enlarged or denoised image.

    The output must have the channels, layout, scale, mean and std of the input. The height and
    width of the output may be multiples of those of the input.

    Attributes:
        output: The output with the generated image; empty for the model's first output.
    """

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Raise a ``UsageError`` unless the output has the input's axes and number of channels."""
        check_maps(output, dims, ("an image", self.image.layout))
        count = dims[self.image.layout.index("C")]
        if isinstance(count, int) and count != len(self.image.channels):
            raise UsageError(
                f"the task expects an image of {len(self.image.channels)} channels, "
                f"{self.image.channels}, but the output is {output.describe()}"
            )

    def find_items(self, path: Path) -> Sequence[tuple[Path, Path | None]]:
        """Return pairs (image file, expected file); without expected files, (image file, None)."""
        return find_image_pairs(path, (("lr", "hr"), ("input", "target")))

    def read_truth(self, image: PilImage, annotation: Path) -> tuple[PilImage, NumpyArray]:
        """Return the image, and the expected image: ``H×W×3 uint8``, or ``H×W uint8`` for grey."""
        return image, np.asarray(open_image(annotation, "RGB" if self._has_colours else "L"))

    @property
    def _has_colours(self) -> bool:
        return self.image.channels != "L"

    def postprocess(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]
    ) -> FoundMap[MadePicture]:
        """Convert the output to the generated image, without the padding of the input.

        Returns:
            The size of the generated image. The attribute ``array`` contains its pixels,
            ``H×W×3 uint8``, or ``H×W uint8`` for grey.
        """
        values = read_channels_first(outputs, self.output, self.image.layout)
        mean, std = (
            np.asarray(numbers, np.float32)[:, None, None]
            for numbers in (self.image.mean, self.image.std)
        )
        # The inverse of the input's normalisation.
        pixels = ((values * std + mean) / np.float32(self.image.scale)).round().clip(0, 255)
        part = pixels[:, *self._locate_image(size, values.shape[1:])].astype(np.uint8)
        if self.image.channels == "BGR":
            part = part[::-1]  # results are RGB
        array = part.transpose(1, 2, 0) if self._has_colours else part[0]
        return FoundMap([MadePicture(array.shape[1], array.shape[0])], np.ascontiguousarray(array))

    def _locate_image(
        self, size: tuple[int, int], output_size: tuple[int, ...]
    ) -> tuple[slice, slice]:
        """Return the rows and columns of the output that are not padding."""
        placed = self.image.place(*size)
        return (
            _scale_range(placed.top, size[1] * placed.scale_y, placed.height, output_size[0]),
            _scale_range(placed.left, size[0] * placed.scale_x, placed.width, output_size[1]),
        )

    def paint_results(self, image: PilImage, results: FoundMap[MadePicture]) -> PilImage:  # noqa: ARG002  # the signature of every task
        """Return the generated image; nothing is painted on ``image``."""
        from PIL import Image

        generated: PilImage = Image.fromarray(results.array)
        return generated


def _scale_range(start: float, length: float, input_size: int, output_size: int) -> slice:
    """Convert a range on an axis of the input to the corresponding range of the output."""
    ends = (max(0.0, start), min(float(input_size), start + length))
    first, last = (round(end * output_size / input_size) for end in ends)
    return slice(first, last)
