"""Depth estimation: computes the distance from the camera for each pixel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from enginebay.errors import UsageError
from enginebay_vision.image_files import open_label_map
from enginebay_vision.maps import interpolate_map, locate_pixels
from enginebay_vision.model_checks import check_maps
from enginebay_vision.outputs import read_map
from enginebay_vision.results import DepthRange, FoundMap
from enginebay_vision.task import OneOutputTask
from enginebay_vision.truth.files import find_image_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as PilImage

    from enginebay import TensorSpec
    from enginebay.authors.arrays import NumpyArray


class DepthEstimation(OneOutputTask, frozen=True, kw_only=True, tag="depth-estimation"):
    """Depth estimation: the model estimates the depth of each pixel.

    Attributes:
        output: The output with depths, ``1×h×w`` or ``1×1×h×w``; empty for the model's first
            output.
        relative: True if the output contains inverse depths with an unknown scale and shift, as in
            MiDaS and Depth Anything. Metrics then fit scale and shift for each image by least
            squares.
        unit: The value in annotation files that means a depth of 1 in the output's unit: 1000 for
            files in millimetres and an output in metres, 256 for KITTI's files.
    """

    relative: bool = False
    unit: float = 1000.0

    def __post_init__(self) -> None:
        if not 0 < self.unit < float("inf"):
            raise UsageError(f"'unit' is {self.unit:g}; expected a number above 0")

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Raise a ``UsageError`` unless the output has three or four axes."""
        check_maps(output, dims, ("a map", "1hw"), ("a map", "11hw"))

    def find_items(self, path: Path) -> Sequence[tuple[Path, Path | None]]:
        """Return pairs (image file, depth file); without depth files, (image file, None)."""
        return find_image_pairs(path, (("images", "depth"),), (".png",))

    def read_truth(self, image: PilImage, annotation: Path) -> tuple[PilImage, NumpyArray]:
        """Return the image, and the true depth of each pixel, ``H×W float32``; 0 if unknown."""
        return image, open_label_map(annotation, image.size).astype(np.float32) / self.unit

    def postprocess(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]
    ) -> FoundMap[DepthRange]:
        """Compute the depth of each pixel.

        Returns:
            The smallest, the largest and the mean depth. The attribute ``array`` contains the depth
            of each pixel, ``H×W float32``; NaN for pixels that the preprocessing cropped.
        """
        values = read_map(outputs, self.output)
        positions = locate_pixels(self.image, size, values.shape)
        depth = np.empty(size[::-1], np.float32)
        for band, part in interpolate_map(values[None], positions):
            depth[band] = part[0]
        depth[positions.unseen] = np.nan
        # The mean in float64: a sum of millions of float32 loses digits.
        figures = (np.nanmin(depth), np.nanmax(depth), np.nanmean(depth, dtype=np.float64))
        return FoundMap([DepthRange(*map(float, figures))], depth)

    def paint_results(self, image: PilImage, results: FoundMap[DepthRange]) -> PilImage:  # noqa: ARG002  # the signature of every task
        """Return the depths as a grey image, in which the largest depth is white."""
        from PIL import Image

        (figures,) = results
        # All depths may be equal.
        shares = (results.array - figures.low) / max(figures.high - figures.low, 1e-9)
        # Cropped pixels are NaN, which becomes 0: black.
        painted: PilImage = Image.fromarray((np.nan_to_num(shares) * 255).round().astype(np.uint8))
        return painted
