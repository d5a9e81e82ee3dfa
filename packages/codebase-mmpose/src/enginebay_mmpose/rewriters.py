"""Rewriters that are active while an estimator is exported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay_mmdet import nms

if TYPE_CHECKING:
    from enginebay.authors import Context

REWRITERS = eb.RewriterSet()

REWRITERS.symbolic(
    "enginebay_mmdet::nms", is_pytorch=True, ir="onnx", arg_descriptors=["v", "v", "f", "i"]
)(nms.symbolic)


@REWRITERS.function("torch.onnx.is_in_onnx_export")
def disable_onnx_branch(ctx: Context) -> bool:  # noqa: ARG001  # as all rewriters
    """Return False: if this were True, RTMO would read tables that it makes for one image size."""
    return False
