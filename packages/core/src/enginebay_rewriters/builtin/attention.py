"""Rewriters of ``scaled_dot_product_attention`` for calls that the exporters do not support.

The default exporter accepts only tensors of four dimensions. For a query row whose keys are all
masked, its translation returns a mean or NaN, where torch returns zeros. The TorchScript exporter
does not support grouped heads. For opsets before 14, which configs of MMDeploy request, the
TorchScript exporter does not support attention at all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay_rewriters.builtin.common import not_torchscript, rewriters

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import Context
    from enginebay_rewriters.builtin.common import ExportTarget

#: torch.onnx has a symbolic for attention from this opset on.
_HAS_ATTENTION = 14

_NAME = "torch.nn.functional.scaled_dot_product_attention"


class _Options(NamedTuple):
    """The arguments of ``scaled_dot_product_attention`` that follow query, key and value."""

    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False


def _torchscript_with_attention(target: ExportTarget) -> bool:
    return target.exporter == "torchscript" and not _torchscript_without_attention(target)


def _torchscript_without_attention(target: ExportTarget) -> bool:
    is_old = target.opset is not None and target.opset < _HAS_ATTENTION
    return target.exporter == "torchscript" and is_old


@rewriters.function(_NAME, ir="onnx", check=_torchscript_with_attention)
def with_repeated_heads(
    ctx: Context, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any
) -> object:
    """For the TorchScript exporter, repeat grouped heads and cast the mask to the query's dtype.

    torch's function computes the attention; rows whose keys are all masked are then set to zero.
    """
    mask, dropout, is_causal, scale, enable_gqa = _Options(*args, **kwargs)
    if _exporter_casts_mask(query, mask, is_causal):
        mask, is_causal = _mask_to_add(query, key, mask), False
    if enable_gqa:
        key, value = _repeat_heads(key, query), _repeat_heads(value, query)
    result = ctx.origin_func(query, key, value, mask, dropout, is_causal, scale=scale)
    return result if mask is None else _zero_hidden_rows(result, mask)


@rewriters.function(_NAME, ir="onnx", check=_torchscript_without_attention)
def with_products(
    ctx: Context, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any
) -> object:
    """Compute softmax(query·keyᵀ·scale + mask)·value.

    This rewriter is for the TorchScript exporter with an opset before 14.
    """
    import torch

    mask, dropout, is_causal, scale, enable_gqa = _Options(*args, **kwargs)
    if dropout or (is_causal and mask is not None):  # random, or an error in torch
        return ctx.origin_func(query, key, value, *args, **kwargs)
    if is_causal or (mask is not None and mask.dtype == torch.bool):
        mask = _mask_to_add(query, key, mask)
    if enable_gqa:
        key, value = _repeat_heads(key, query), _repeat_heads(value, query)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    weights = (query * factor) @ key.transpose(-2, -1)
    if mask is None:
        return weights.softmax(-1) @ value
    return _zero_hidden_rows((weights + mask).softmax(-1) @ value, mask)


@rewriters.function(_NAME, ir="onnx", check=not_torchscript)
def with_four_dimensions(
    ctx: Context, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any
) -> object:
    """For the default exporter, call torch's function with tensors of four dimensions.

    The result has the rank of ``query``, and zeros in the rows whose keys are all masked.
    """
    mask, dropout, is_causal, scale, enable_gqa = _Options(*args, **kwargs)
    inputs, batch = [query, key, value], query.shape[:-2]
    same_batch = all(each.dim() >= 2 and each.shape[:-2] == batch for each in inputs)
    reshaped = same_batch and len(batch) != 2
    if reshaped:
        inputs = [_as_four_dimensions(each) for each in inputs]
        mask = None if mask is None else _as_four_dimensions(mask.expand(*batch, *mask.shape[-2:]))
    # Reshaped tensors have the same number of heads: there are no groups to repeat.
    result = ctx.origin_func(
        *inputs, mask, dropout, is_causal, scale=scale, enable_gqa=enable_gqa and not reshaped
    )
    if mask is not None:
        result = _zero_hidden_rows(result, mask)
    return result.reshape(*batch, *result.shape[-2:]) if reshaped else result


def _exporter_casts_mask(query: Tensor, mask: Tensor | None, is_causal: bool) -> bool:
    """Return True if the exporter would use a float32 mask, which makes the result float32."""
    import torch

    by_position = is_causal if mask is None else not is_causal and mask.dtype == torch.bool
    return by_position and query.dtype != torch.float32


def _mask_to_add(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    """Return an additive mask in the query's dtype: −∞ for hidden keys, else 0."""
    import torch

    if mask is None:
        rows = torch.arange(query.shape[-2], device=query.device)
        mask = torch.arange(key.shape[-2], device=query.device) <= rows[:, None]
    return torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, -math.inf)


def _as_four_dimensions(value: Tensor) -> Tensor:
    """Return a view with four dimensions: add leading dimensions, or flatten leading ones."""
    if value.dim() > 4:  # batch, heads, rows, features
        return value.flatten(0, value.dim() - 4)
    return value[(None,) * (4 - value.dim())]


def _repeat_heads(value: Tensor, query: Tensor) -> Tensor:
    """Repeat each head of ``value`` until there are as many heads as in ``query``."""
    times = query.shape[-3] // value.shape[-3]
    sizes = [-1] * value.dim()
    return value.unsqueeze(-3).expand(*sizes[:-2], times, -1, -1).flatten(-4, -3)


def _zero_hidden_rows(result: Tensor, mask: Tensor) -> Tensor:
    """Return the result with zeros in each row whose keys are all hidden by the mask."""
    import torch

    is_visible = mask if mask.dtype == torch.bool else mask != -math.inf
    return result.masked_fill(~is_visible.any(-1, keepdim=True), 0)
