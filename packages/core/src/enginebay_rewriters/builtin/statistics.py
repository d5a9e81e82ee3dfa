"""Rewriters of ``cov`` and ``corrcoef``; exporters refuse torch's code, which reads tensor data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay_rewriters.builtin.common import rewriters

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import Context


@rewriters.function("torch.cov")
@rewriters.function("torch.Tensor.cov")
def cov(ctx: Context, input: Tensor, *, correction: int = 1, **kwargs: object) -> object:
    """Compute (X − mean)·(X − mean)ᵀ / (n − correction)."""
    weighted = any(value is not None for value in kwargs.values())
    if input.ndim not in (1, 2) or not input.dtype.is_floating_point or weighted:
        return ctx.origin_func(input, correction=correction, **kwargs)
    rows = input.reshape(-1, input.shape[-1])
    rows = rows - rows.mean(1, keepdim=True)
    # clamp below needs a tensor: in a trace a size is a tensor, in torch.export a SymInt.
    count = rows.new_ones(rows.shape[1:]).sum() - correction
    result = (rows @ rows.mT) / count.clamp(min=0)
    # As torch, which returns a scalar for a single variable.
    return result.reshape(()) if input.ndim == 1 or input.shape[0] == 1 else result


@rewriters.function("torch.corrcoef")
@rewriters.function("torch.Tensor.corrcoef")
def corrcoef(ctx: Context, input: Tensor) -> object:
    """Divide each covariance by the standard deviations of both variables."""
    import torch

    if input.ndim not in (1, 2) or not input.dtype.is_floating_point:
        return ctx.origin_func(input)
    covariances = torch.cov(input)
    if not covariances.ndim:
        return covariances / covariances
    deviations = covariances.diagonal().sqrt()
    return (covariances / deviations.unsqueeze(1) / deviations).clamp(-1, 1)
