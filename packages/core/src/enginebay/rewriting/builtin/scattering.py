"""``scatter_reduce`` by a mean, of which torch's default exporter makes a plain assignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.common import rewriters

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.lowering import LoweringContext


@rewriters.lowering("aten.scatter_reduce", ir="onnx")
def scatter_mean(
    ctx: LoweringContext,
    x: Tensor,
    dim: int,
    index: Tensor,
    values: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """Divide the sum by the number of values."""
    import torch

    if reduce != "mean" or not x.dtype.is_floating_point:
        return ctx.origin_op(x, dim, index, values, reduce, include_self=include_self)
    ones = torch.ones_like(values.expand(values.shape))
    counts = torch.zeros_like(x).scatter_add(dim, index, ones)
    if include_self:
        return x.scatter_add(dim, index, values) / (counts + 1)
    sums = torch.zeros_like(x).scatter_add(dim, index, values)
    return torch.where(counts == 0, x, sums / counts.clamp(min=1))
