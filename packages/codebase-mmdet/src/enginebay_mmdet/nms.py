"""Non-maximum suppression as one operator of torch, exported as ONNX's ``NonMaxSuppression``.

The operator returns a mask instead of a list of indices. So no shape depends on the scores:
torch can export the operators that use the mask, and torch.vmap can map these operators over
images.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch._functorch.autograd_function import VmapInfo

    from enginebay.authors import Context


@torch.library.custom_op("enginebay_mmdet::nms", mutates_args=())
def select_boxes(boxes: Tensor, scores: Tensor, iou_threshold: float, most: int) -> Tensor:
    """Return a mask ``B×N``: 1 for a selected box, 0 for a suppressed box or one with score 0.

    Args:
        boxes: ``B×N×4 float32``: left, top, right, bottom.
        scores: ``B×N float32``.
        iou_threshold: The intersection over union above which a box is removed.
        most: The maximum number of selected boxes for each image.
    """
    from enginebay_openmmlab.operators import nms

    mask = torch.zeros_like(scores)
    for row, (corners, values) in enumerate(zip(boxes, scores, strict=True)):
        indices = (values > 0).nonzero().flatten()  # score 0 marks boxes that mmdet drops
        selected = nms(corners[indices], values[indices], iou_threshold, 0)[:most]
        mask[row, indices[selected]] = 1
    return mask


@select_boxes.register_fake
def _(boxes: Tensor, scores: Tensor, iou_threshold: float, most: int) -> Tensor:  # noqa: ARG001  # of the operator
    return torch.empty_like(scores)


def _map_over_batch(
    info: VmapInfo,
    in_dims: Sequence[int | None],
    boxes: Tensor,
    scores: Tensor,
    iou_threshold: float,
    most: int,
) -> tuple[Tensor, int]:
    """Select boxes under torch.vmap: the mapped dimension is merged with the batch dimension."""
    boxes, scores = (
        x.movedim(dim, 0) if dim is not None else x.expand(info.batch_size, *x.shape)
        for x, dim in zip((boxes, scores), in_dims, strict=False)
    )
    mask = select_boxes(boxes.flatten(0, 1), scores.flatten(0, 1), iou_threshold, most)
    return mask.reshape(scores.shape), 0


select_boxes.register_vmap(_map_over_batch)


def symbolic(
    ctx: Context,  # noqa: ARG001  # the context of every rewriter
    g: Any,
    boxes: torch.Value,
    scores: torch.Value,
    iou_threshold: float,
    most: int,
) -> object:
    """Add ``NonMaxSuppression`` and nodes that convert the indices to a mask; return the mask."""

    def constant(*values: float) -> object:
        return g.op("Constant", value_t=torch.tensor(values))

    shape = g.op("Shape", scores)
    batch, count = (g.op("Gather", shape, constant(i), axis_i=0) for i in (0, 1))
    classes = g.op("Concat", batch, constant(1), count, axis_i=0)  # one class: N is the last
    selected = g.op(
        "NonMaxSuppression",
        boxes,
        g.op("Reshape", scores, classes),
        constant(most),
        constant(float(iou_threshold)),
        constant(0.0),
    )
    indices = g.op("Gather", selected, constant(0, 2), axis_i=1)  # of the image, and of the box
    number = g.op("Gather", g.op("Shape", selected), constant(0), axis_i=0)
    zeros = g.op("ConstantOfShape", shape, value_t=torch.zeros(1))
    ones = g.op("ConstantOfShape", number, value_t=torch.ones(1))
    mask = g.op("ScatterND", zeros, indices, ones)
    mask.setType(scores.type())
    return mask
