"""mmcv's operators in plain torch, for an mmcv that was built without them.

Names and arguments are those of mmcv's compiled module, which writes into tensors of the caller.
"""

from __future__ import annotations

import torch
from torch import Tensor


def nms(bboxes: Tensor, scores: Tensor, iou_threshold: float, offset: int) -> Tensor:
    """Drop each box that overlaps a better one; return the places of the rest, the best first.

    Args:
        bboxes: ``N×4 float32``: left, top, right, bottom.
        scores: ``N float32``.
        iou_threshold: The intersection over union from which a box is dropped.
        offset: What the right edge adds to a width: 0, or 1 where edges are pixels.
    """
    size = bboxes[:, 2:] - bboxes[:, :2] + offset
    area = size[:, 0] * size[:, 1]
    kept: list[int] = []
    left = scores.argsort(descending=True, stable=True)
    while left.numel():
        best, left = left[0], left[1:]
        kept.append(int(best))
        low = torch.maximum(bboxes[left, :2], bboxes[best, :2])
        high = torch.minimum(bboxes[left, 2:], bboxes[best, 2:])
        shared = (high - low + offset).clamp(min=0).prod(1)
        left = left[~(shared / (area[left] + area[best] - shared) > iou_threshold)]
    return torch.tensor(kept, dtype=torch.int64)


def roi_align_forward(
    input: Tensor,  # noqa: A002  # mmcv's name
    rois: Tensor,
    output: Tensor,
    *_: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    pool_mode: int,
    aligned: bool,
) -> None:
    """Average the features in each cell of each region: ``rois`` is ``K×5``, image and corners."""
    from torchvision.ops.roi_align import _roi_align

    if not pool_mode:
        raise NotImplementedError("RoIAlign by the largest feature")
    size = aligned_height, aligned_width
    output.copy_(_roi_align(input, rois, spatial_scale, *size, sampling_ratio, aligned))
