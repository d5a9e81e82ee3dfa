"""Rewriters of ``atan2`` and ``angle``, which exporters translate wrongly on coordinate axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay_rewriters.builtin.common import rewriters
from enginebay_rewriters.portable.arithmetic import atan2

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import LoweringContext

# On the axes dynamo is off by 2π, and TorchScript returns NaN.
rewriters.lowering("aten.atan2", ir="onnx")(atan2)


@rewriters.lowering("aten.angle", ir="onnx", needs=("complex",))
def angle(ctx: LoweringContext, x: Tensor) -> Tensor:
    """Return atan2(imag, real), which is π for negative real numbers; exporters return −π."""
    import torch

    return torch.atan2(x.imag, x.real)
