"""torchvision's wheel with a CPU build of torch.

Its compiled operators belong to a build with CUDA and do not load. This module declares them with
torchvision's own schemas, and implements the operators of its detectors in Python.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_ROIS = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_BACK = "Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SIZE = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_DEFORM = (
    "Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h,"
    " SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups,"
    " bool use_mask"
)
_FIVE = "(Tensor, Tensor, Tensor, Tensor, Tensor)"
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align({_ROIS}, int sampling_ratio, bool aligned) -> Tensor",
    f"qroi_align({_ROIS}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool({_ROIS}) -> (Tensor, Tensor)",
    f"ps_roi_align({_ROIS}, int sampling_ratio) -> (Tensor, Tensor)",
    f"ps_roi_pool({_ROIS}) -> (Tensor, Tensor)",
    f"deform_conv2d(Tensor input, Tensor weight, {_DEFORM}) -> Tensor",
    f"_roi_align_backward({_BACK}, {_SIZE}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_pool_backward({_BACK}, Tensor argmax, {_SIZE}) -> Tensor",
    f"_ps_roi_align_backward({_BACK}, int sampling_ratio, {_SIZE}) -> Tensor",
    f"_ps_roi_pool_backward({_BACK}, {_SIZE}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, {_DEFORM}) -> {_FIVE}",
)


@cache
def import_torchvision() -> Any:
    """Declare the operators, once per process, if torchvision does not import without them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on a current torch
        return _import_torchvision()


def _import_torchvision() -> Any:
    import torch

    try:
        import torchvision  # noqa: F401  # whether it imports is the question
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for schema in SCHEMAS:
            library.define(schema)
        library.impl("nms", _nms, "CPU")
        library.impl("roi_align", _roi_align, "CPU")
        from torchvision import extension

        extension._has_ops = _has_ops
        return library


def _has_ops() -> bool:  # torch.jit.script compiles it
    return True


def _nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    import torch
    from torchvision.ops.boxes import box_iou

    overlaps = box_iou(dets, dets) > iou_threshold
    suppressed = torch.zeros(len(dets), dtype=torch.bool)
    kept: list[int] = []
    for place in scores.argsort(descending=True, stable=True).tolist():
        if not suppressed[place]:
            kept.append(place)
            suppressed |= overlaps[place]
    return torch.tensor(kept, dtype=torch.int64)


def _roi_align(*arguments: Any) -> torch.Tensor:
    from torchvision.ops.roi_align import _roi_align as in_python

    pooled: torch.Tensor = in_python(*arguments)
    return pooled
