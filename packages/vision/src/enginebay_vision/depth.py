"""Depth estimation: the distance of each pixel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import UsageError
from enginebay_vision.image_files import open_label_map
from enginebay_vision.maps import interpolate_map, locate_pixels
from enginebay_vision.model_checks import check_maps
from enginebay_vision.outputs import read_map
from enginebay_vision.results import DepthRange, FoundMap
from enginebay_vision.task import OneOutputTask
from enginebay_vision.truth.files import find_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as Picture

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray


class DepthEstimation(OneOutputTask, frozen=True, kw_only=True, tag="depth-estimation"):
    """The model estimates the depth of each pixel.

    Attributes:
        output: The output, ``1×h×w`` or ``1×1×h×w``; empty for the model's first.
        relative: True if the output has inverse depths with unknown scale and shift, like MiDaS and
            Depth Anything: metrics fit both by least squares for each image.
        unit: The number in annotation files that equals 1 in the output: 1000 for files in
            millimetres and an output in metres; 256 for KITTI's files.
    """

    relative: bool = False
    unit: float = 1000.0

    def __post_init__(self) -> None:
        if not 0 < self.unit < float("inf"):
            raise UsageError(f"unit is {self.unit:g}; expected a number above 0")

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Check the axes of the output."""
        check_maps(output, dims, ("a map", "1hw"), ("a map", "11hw"))

    def find_items(self, path: Path) -> list[tuple[Path, Any]]:
        """Return images with depth files of the same names."""
        return find_pairs(path, (("images", "depth"),), (".png",))

    def read_truth(self, picture: Picture, annotation: Path) -> tuple[Picture, NumpyArray]:
        """Read an image's depths, ``H×W float32``; 0 for unknown ones."""
        return picture, open_label_map(annotation, picture.size).astype(np.float32) / self.unit

    def postprocess(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]
    ) -> FoundMap[DepthRange]:
        """Compute the depth of each pixel.

        Returns:
            The smallest, the largest and the mean depth; ``array`` has the depth of each pixel,
            ``H×W float32``, NaN for pixels that were cut off before the network.
        """
        values = read_map(outputs, self.output)
        places = locate_pixels(self.image, size, values.shape)
        depth = np.empty(size[::-1], np.float32)
        for band, part in interpolate_map(values[None], places):
            depth[band] = part[0]
        depth[places.unseen] = np.nan
        figures = (np.nanmin(depth), np.nanmax(depth), np.nanmean(depth, dtype=np.float64))
        return FoundMap([DepthRange(*map(float, figures))], depth)

    def paint(self, picture: Picture, found: FoundMap[DepthRange]) -> Picture:  # noqa: ARG002  # the signature of every task
        """Return the depths as a grey image, with the largest number white."""
        from PIL import Image

        (figures,) = found
        shares = (found.array - figures.low) / max(figures.high - figures.low, 1e-9)
        painted: Picture = Image.fromarray((np.nan_to_num(shares) * 255).round().astype(np.uint8))
        return painted
