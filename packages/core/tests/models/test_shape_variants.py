"""The sizes between the limits at which an artifact is verified, with respect to memory."""

from __future__ import annotations

import pytest

from enginebay.models import between_shapes
from enginebay.params import DynamicDim


def opened(**limits: int) -> dict[str, dict[int, DynamicDim]]:
    axes = {0: "batch", 2: "height", 3: "width"}
    return {"x": {axis: DynamicDim(name, 1, limits.get(name)) for axis, name in axes.items()}}


@pytest.mark.parametrize(
    ("height", "width", "batches"), [(64, 96, [3, 2]), (640, 640, [3, 2]), (1024, 2048, [2])]
)
def test_a_large_image_is_tried_at_twice_its_size_not_more(
    height: int, width: int, batches: list[int]
) -> None:
    """A segmenter for 1024×2048 took 15 GB, most of them for the batch of three."""
    found = [*between_shapes(opened(), {"x": (1, 3, height, width)})]
    assert [shapes["x"][0] for shapes in found] == batches
    assert all(shapes["x"][3] in range(width - 40, width + 40) for shapes in found)


def test_a_requested_range_is_tried_whatever_it_takes() -> None:
    found = [*between_shapes(opened(batch=8), {"x": (1, 3, 1024, 2048)})]
    assert [shapes["x"][0] for shapes in found] == [5, 3]
