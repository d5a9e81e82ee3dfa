"""Depth: from a network's map to the distance of each pixel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import UsageError
from enginebay_vision.fitting import check_maps
from enginebay_vision.found import DepthRange, FoundMap
from enginebay_vision.maps import find_places, interpolated
from enginebay_vision.opening import open_numbers
from enginebay_vision.outputs import one_map
from enginebay_vision.task import OneOutputTask
from enginebay_vision.truth.files import find_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image as Picture

    from enginebay import TensorSpec
    from enginebay.authors import NumpyArray


class DepthEstimation(OneOutputTask, frozen=True, kw_only=True, tag="depth-estimation"):
    """The model tells how far away each pixel is.

    Attributes:
        output: The output, ``1×h×w`` or ``1×1×h×w``; empty for the model's first.
        relative: True if the output has inverse depths up to a scale and a shift, as MiDaS and
            Depth Anything do: metrics find both by least squares for each picture.
        unit: The number in a file of true depths that means 1 in the output: 1000 for files in
            millimetres and an output in metres; 256 for KITTI's files.
    """

    relative: bool = False
    unit: float = 1000.0

    def __post_init__(self) -> None:
        if not 0 < self.unit < float("inf"):
            raise UsageError(f"unit is {self.unit:g}, wanted a number above 0")

    def check_output(self, output: TensorSpec, dims: Sequence[int | str]) -> None:
        """Compare the axes."""
        check_maps(output, dims, ("a map", "1hw"), ("a map", "11hw"))

    def find_items(self, path: Path) -> list[tuple[Path, Any]]:
        """Pictures with depths of the same names."""
        return find_pairs(path, (("images", "depth"),), (".png",))

    def read_truth(self, picture: Picture, annotation: Path) -> tuple[Picture, NumpyArray]:
        """Read a picture's depths, ``H×W float32``; 0 for unknown ones."""
        return picture, open_numbers(annotation, picture.size).astype(np.float32) / self.unit

    def postprocess(
        self, outputs: Mapping[str, NumpyArray], size: tuple[int, int]
    ) -> FoundMap[DepthRange]:
        """Find the depth of each pixel.

        Returns:
            The smallest, the largest and the mean depth; ``array`` has the depth of each pixel,
            ``H×W float32``, NaN for pixels that were cut off before the network.
        """
        values = one_map(outputs, self.output)
        places = find_places(self.image, size, values.shape)
        depth = np.empty(size[::-1], np.float32)
        for band, part in interpolated(values[None], places):
            depth[band] = part[0]
        depth[places.unseen] = np.nan
        figures = (np.nanmin(depth), np.nanmax(depth), np.nanmean(depth, dtype=np.float64))
        return FoundMap([DepthRange(*map(float, figures))], depth)

    def paint(self, picture: Picture, found: FoundMap[DepthRange]) -> Picture:  # noqa: ARG002  # as every task's
        """Paint the depths in grey, the largest number white."""
        from PIL import Image

        (figures,) = found
        shares = (found.array - figures.low) / max(figures.high - figures.low, 1e-9)
        painted: Picture = Image.fromarray((np.nan_to_num(shares) * 255).round().astype(np.uint8))
        return painted
