"""RoIAlign of many images as one operator of torch, exported as ONNX's ``RoiAlign``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay.authors import Context


@torch.library.custom_op("enginebay_mmdet::roi_align", mutates_args=())
def pool_regions(
    features: Tensor,
    boxes: Tensor,
    scale: float,
    height: int,
    width: int,
    samples: int,
    shift: bool,
) -> Tensor:
    """Split each region into bins, and return the average of the features in each bin.

    Args:
        features: ``B×C×H×W float32``.
        boxes: ``B×N×4 float32``: left, top, right, bottom, in pixels of the image.
        scale: The width of the feature map divided by the width of the image.
        height: The number of bins of a region from top to bottom.
        width: The number of bins of a region from left to right.
        samples: The number of sampling points along each side of a bin. If it is 0, a bin has as
            many sampling points as it covers features.
        shift: True if the centre of the first feature is at 0.5, not at 0: mmcv's ``aligned``.

    Returns:
        The averages, ``(B·N)×C×height×width float32``.
    """
    from torchvision.ops.roi_align import _roi_align

    images = torch.arange(boxes.shape[0], device=boxes.device).to(boxes.dtype)
    rois = torch.cat([images.repeat_interleave(boxes.shape[1])[:, None], boxes.flatten(0, 1)], 1)
    features_of_cells: Tensor = _roi_align(features, rois, scale, height, width, samples, shift)
    return features_of_cells.clone()


@pool_regions.register_fake
def _(features: Tensor, boxes: Tensor, _: float, height: int, width: int, *__: object) -> Tensor:
    return features.new_empty((boxes.shape[0] * boxes.shape[1], features.shape[1], height, width))


def _map_over_batch(
    info: object,  # noqa: ARG001  # torch's
    in_dims: Sequence[int],
    features: Tensor,
    boxes: Tensor,
    *rest: Any,
) -> tuple[Tensor, int]:
    """Pool regions under torch.vmap: the mapped dimension is merged with the batch dimension."""
    features, boxes = features.movedim(in_dims[0], 0), boxes.movedim(in_dims[1], 0)
    pooled = pool_regions(features.flatten(0, 1), boxes.flatten(0, 1), *rest)
    return pooled.reshape(features.shape[0], -1, *pooled.shape[1:]), 0


pool_regions.register_vmap(_map_over_batch)


def symbolic(
    ctx: Context,  # noqa: ARG001  # the context of every rewriter
    g: Any,
    features: torch.Value,
    boxes: torch.Value,
    scale: float,
    height: int,
    width: int,
    samples: int,
    shift: bool,
) -> object:
    """Return a ``RoiAlign`` node; before opset 16, ``shift`` moves the boxes by half a feature."""

    def constant(values: object) -> object:
        return g.op("Constant", value_t=torch.tensor(values))

    shape = g.op("Shape", boxes)
    batch, count = (g.op("Gather", shape, constant(i), axis_i=0) for i in (0, 1))
    images = g.op("Range", constant(0), batch, constant(1))
    column = g.op("Reshape", images, constant([-1, 1]))
    counts = g.op("Concat", constant([1]), g.op("Reshape", count, constant([1])), axis_i=0)
    indices = g.op("Reshape", g.op("Expand", column, counts), constant([-1]))
    flat = g.op("Reshape", boxes, constant([-1, 4]))
    attributes: dict[str, Any] = {}
    if g.opset >= 16:
        attributes["coordinate_transformation_mode_s"] = (
            "half_pixel" if shift else "output_half_pixel"
        )
    elif shift:
        # Half a feature is 0.5 / scale pixels of the image.
        flat = g.op("Sub", flat, constant([0.5 / scale]))
    return g.op(
        "RoiAlign",
        features,
        flat,
        indices,
        output_height_i=height,
        output_width_i=width,
        spatial_scale_f=scale,
        sampling_ratio_i=samples,
        **attributes,
    )
