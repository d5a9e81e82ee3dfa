"""Rewriters of ``scatter_reduce``, ``index_put``, ``fill``, which exporters translate wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay_rewriters.builtin.common import rewriters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from enginebay.authors import LoweringContext


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
) -> Tensor:
    """Compute the reduction "mean" as sum / count; the exporter would only assign the values."""
    import torch

    if reduce != "mean" or not x.dtype.is_floating_point:
        original: Tensor = ctx.origin_op(x, dim, index, values, reduce, include_self=include_self)
        return original
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
) -> Tensor:
    """Convert int32 indices to int64: ONNX's ScatterND does not accept int32."""
    import torch

    converted = [
        each.long() if each is not None and each.dtype is torch.int32 else each for each in indices
    ]
    result: Tensor = ctx.origin_op(x, converted, values, accumulate)
    return result


# In torch 2.15 the exporter's handling of a filled copy changed.
@rewriters.lowering("aten.fill", ir="onnx", versions={"torch": ">=2.15"})
def fill(ctx: LoweringContext, x: Tensor, value: Tensor | float) -> Tensor:
    """Return a new tensor, because the TorchScript exporter fails on a traced in-place fill."""
    import torch

    if isinstance(value, torch.Tensor):
        result: Tensor = ctx.origin_op(x, value)
        return result
    return torch.full_like(x, value)
