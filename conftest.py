"""torchvision as it imports here, for the tests of packages whose libraries need it."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

#: The custom ops that torchvision registers fake kernels for while it is imported.
_OPS = ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d")
_NMS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def _import_torchvision() -> Any:
    """Let torchvision's wheel import beside a CPU build of torch.

    Its compiled ops belong to a build with CUDA and do not load; their schemas are all that the
    import needs, and no model that is built here calls one.
    """
    import torch

    try:
        import torchvision  # noqa: F401  # whether it imports is the question
    except RuntimeError:
        ops = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            ops.define(f"{name}{_NMS}")
        for name in ("qroi_align", *_OPS, *(f"_{name}_backward" for name in _OPS)):
            ops.define(f"{name}(Tensor input) -> Tensor")
        return ops


if find_spec("torchvision"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on a current torch
        _KEPT = _import_torchvision()
