"""Assignments that torch's exporters get wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.common import rewriters

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """Divide the sum by the number of values; the exporter assigns the values."""
    import torch

    if reduce != "mean" or not x.dtype.is_floating_point:
        return ctx.origin_op(x, dim, index, values, reduce, include_self=include_self)
    ones = torch.ones_like(values.expand(values.shape))
    counts = torch.zeros_like(x).scatter_add(dim, index, ones)
    if include_self:
        return x.scatter_add(dim, index, values) / (counts + 1)
    sums = torch.zeros_like(x).scatter_add(dim, index, values)
    return torch.where(counts == 0, x, sums / counts.clamp(min=1))


@rewriters.lowering("aten.index_put", ir="onnx")
@rewriters.lowering("aten._unsafe_index_put", ir="onnx")
def index_put(
    ctx: LoweringContext,
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
) -> Any:
    """Make the indices int64: the exporter writes int32 ones, which ONNX's ScatterND refuses."""
    import torch

    wide = [
        each.long() if each is not None and each.dtype is torch.int32 else each for each in indices
    ]
    return ctx.origin_op(x, wide, values, accumulate)


@rewriters.lowering("aten.fill", ir="onnx", versions={"torch": ">=2.15"})
def fill(ctx: LoweringContext, x: Tensor, value: Any) -> Any:
    """Make a new tensor: the TorchScript exporter fills a copy, and fails at what it traced."""
    import torch

    if isinstance(value, torch.Tensor):
        return ctx.origin_op(x, value)
    return torch.full_like(x, value)
