"""Lowerings of arithmetic operators; the results are correct for finite numbers only."""

# ruff: noqa: ARG001, D103 - each takes the arguments of its operator
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import enginebay as eb
from enginebay_ncnn.lowerings.common import LACKING, torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from enginebay.authors import LoweringContext

lowerings = eb.RewriterSet(backend="ncnn")


@lowerings.lowering("aten.exp2", needs=LACKING)
def lower_exp2(ctx: LoweringContext, x: Tensor) -> Tensor:
    return (x * math.log(2)).exp()


@lowerings.lowering("aten.log2", needs=LACKING)
def lower_log2(ctx: LoweringContext, x: Tensor) -> Tensor:
    return x.log() * (1 / math.log(2))


@lowerings.lowering("aten.fmax", needs=LACKING)
def lower_fmax(ctx: LoweringContext, a: Tensor, b: Tensor) -> Tensor:
    return torch.maximum(a, b)


@lowerings.lowering("aten.fmin", needs=LACKING)
def lower_fmin(ctx: LoweringContext, a: Tensor, b: Tensor) -> Tensor:
    return torch.minimum(a, b)


@lowerings.lowering("aten.signbit", needs=LACKING)
def lower_signbit(ctx: LoweringContext, x: Tensor) -> Tensor:
    return x < 0  # ncnn does not distinguish -0.0 from 0.0


@lowerings.lowering("aten.isfinite", needs=LACKING)
def lower_isfinite(ctx: LoweringContext, x: Tensor) -> Tensor:
    return (x.isnan() | x.isinf()).logical_not()


@lowerings.lowering("aten.logaddexp", needs=LACKING)
def lower_logaddexp(ctx: LoweringContext, a: Tensor, b: Tensor) -> Tensor:
    # Torch's own decomposition tests for infinities first, in 15 nodes.
    return torch.maximum(a, b) + (a - b).abs().neg().exp().log1p()


@lowerings.lowering("aten.logaddexp2", needs=LACKING)
def lower_logaddexp2(ctx: LoweringContext, a: Tensor, b: Tensor) -> Tensor:
    return torch.maximum(a, b) + (1 + (a - b).abs().neg().exp2()).log2()


@lowerings.lowering("aten.lerp", needs=LACKING)
def lower_lerp(ctx: LoweringContext, a: Tensor, b: Tensor, weight: Tensor | float) -> Tensor:
    # Torch's own decomposition has a second formula for large weights, to be exact at 1.
    return a + (b - a) * weight


@lowerings.lowering("aten.var_mean.correction", needs=LACKING)
def lower_var_mean(
    ctx: LoweringContext,
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    dims = list(dim) if dim else list(range(x.ndim))
    correction = 1 if correction is None else correction
    return torch.var(x, dims, correction=correction, keepdim=keepdim), x.mean(dims, keepdim)
