"""mmcv's operators in plain torch, for an mmcv that was built without compiled operators.

Names and arguments are those of mmcv's compiled module.
"""

from __future__ import annotations

import torch
from torch import Tensor


def nms(bboxes: Tensor, scores: Tensor, iou_threshold: float, offset: int) -> Tensor:
    """Remove each box that overlaps a better box; return the remaining indices, best first.

    Args:
        bboxes: ``N×4 float32``: left, top, right, bottom.
        scores: ``N float32``.
        iou_threshold: The intersection over union above which a box is removed.
        offset: The value added to widths and heights: 0, or 1 if edges are pixel indices.
    """
    size = bboxes[:, 2:] - bboxes[:, :2] + offset
    area = size[:, 0] * size[:, 1]
    selected: list[int] = []
    candidates = scores.argsort(descending=True, stable=True)
    while candidates.numel():
        best, candidates = candidates[0], candidates[1:]
        selected.append(int(best))
        low = torch.maximum(bboxes[candidates, :2], bboxes[best, :2])
        high = torch.minimum(bboxes[candidates, 2:], bboxes[best, 2:])
        shared = (high - low + offset).clamp(min=0).prod(1)
        # Not <=, since the overlap of two boxes of no area is NaN: they are kept.
        candidates = candidates[
            ~(shared / (area[candidates] + area[best] - shared) > iou_threshold)
        ]
    return torch.tensor(selected, dtype=torch.int64)


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
    """Split each region into bins; write the average of the features in each bin to ``output``.

    ``rois`` is ``K×5``: the index of the image, then left, top, right and bottom.
    """
    from torchvision.ops.roi_align import _roi_align

    if not pool_mode:
        raise NotImplementedError("RoIAlign with pool_mode 'max' is not supported")
    size = aligned_height, aligned_width
    output.copy_(_roi_align(input, rois, spatial_scale, *size, sampling_ratio, aligned))
