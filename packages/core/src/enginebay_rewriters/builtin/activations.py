"""Rewriters of ``logsigmoid``, ``logaddexp`` and binary cross entropy that do not overflow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from enginebay_rewriters.builtin.common import not_dynamo, rewriters

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from enginebay.authors import Context
    from enginebay_rewriters.builtin.common import OnnxGraph


# Both exporters write Log(Sigmoid(x)), which is -inf where the sigmoid is 0 in float32: below -88
# by ONNX's definition, and in an engine whose sigmoid stops earlier below -19.
@rewriters.symbolic("log_sigmoid", is_pytorch=True, ir="onnx")
def log_sigmoid(ctx: Context, g: OnnxGraph, self: torch.Value) -> torch.Value:
    """Compute −softplus(−x)."""
    return g.op("Neg", g.op("Softplus", g.op("Neg", self)))


# dynamo adds exponentials, which overflow from 88 on, and TorchScript has no translation. OpenVINO
# returns NaN for two equal infinities, and has no translation for base 2.
@rewriters.function("torch.logaddexp")
@rewriters.function("torch.Tensor.logaddexp")
def logaddexp(ctx: Context, input: Tensor, other: Tensor, **kwargs: object) -> object:
    """Compute max(a, b) + softplus(−|a − b|), where a is ``input`` and b is ``other``."""
    if kwargs or not _are_floats(input, other):
        return ctx.origin_func(input, other, **kwargs)
    return _log_of_sum(input, other, 1.0)


@rewriters.function("torch.logaddexp2")
@rewriters.function("torch.Tensor.logaddexp2")
def logaddexp2(ctx: Context, input: Tensor, other: Tensor, **kwargs: object) -> object:
    """Compute max(a, b) + softplus(−|a − b|·ln 2) / ln 2 (a is ``input``, b is ``other``)."""
    if kwargs or not _are_floats(input, other):
        return ctx.origin_func(input, other, **kwargs)
    return _log_of_sum(input, other, math.log(2))


def _are_floats(*tensors: Tensor) -> bool:
    return all(each.is_floating_point() for each in tensors)


def _log_of_sum(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """Compute max(a, b) + softplus(−|a − b|·scale) / scale, where scale is ln(base)."""
    import torch

    difference = _clamp_to_finite(a) - _clamp_to_finite(b)  # ∞ − ∞ would be NaN
    added = torch.nn.functional.softplus(difference.abs() * -scale) / scale
    return torch.maximum(a, b) + added


def _clamp_to_finite(value: Tensor) -> Tensor:
    import torch

    largest = torch.finfo(value.dtype).max
    return value.clamp(-largest, largest)


# TorchScript takes the logarithm of a sigmoid that may be 0 or 1. OpenVINO, which reads
# TorchScript, refuses the operator or returns infinities.
@rewriters.function("torch.nn.functional.binary_cross_entropy_with_logits", check=not_dynamo)
def binary_cross_entropy_with_logits(
    ctx: Context,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> object:
    """Compute (1 − target)·input + (1 + (pos_weight − 1)·target)·softplus(−input)."""
    import torch

    is_known = reduction in ("none", "mean", "sum") and size_average is None and reduce is None
    if not is_known or input.shape != target.shape or not _are_floats(input, target):
        return ctx.origin_func(input, target, weight, size_average, reduce, reduction, pos_weight)
    losses = torch.nn.functional.softplus(-input)
    if pos_weight is not None:
        losses = losses * (1 + (pos_weight - 1) * target)
    losses = (1 - target) * input + losses
    if weight is not None:
        losses = losses * weight
    return losses if reduction == "none" else getattr(losses, reduction)()
