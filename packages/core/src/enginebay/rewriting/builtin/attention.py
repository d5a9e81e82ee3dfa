"""``scaled_dot_product_attention``: ranks, hidden rows and grouped heads.

The default exporter takes four dimensions only, and where the mask hides a whole row it answers
some mean or NaN, and torch zeros. The TorchScript exporter has no grouped heads, and no attention
at all in the operator sets before 14, which configs of MMDeploy ask for.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context, Target

#: torch.onnx has a symbolic for attention from this operator set on.
_HAS_ATTENTION = 14

NAME = "torch.nn.functional.scaled_dot_product_attention"


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriters."""
    rewriters.function(NAME, ir="onnx", check=_for_torchscript)(with_repeated_heads)
    rewriters.function(NAME, ir="onnx", check=_for_old_sets)(with_products)
    rewriters.function(NAME, ir="onnx", check=_for_dynamo)(with_four_dimensions)


def _for_torchscript(target: Target) -> bool:
    return target.exporter == "torchscript" and not _for_old_sets(target)


def _for_old_sets(target: Target) -> bool:
    old = target.opset is not None and target.opset < _HAS_ATTENTION
    return target.exporter == "torchscript" and old


def _for_dynamo(target: Target) -> bool:
    return target.exporter != "torchscript"


def with_repeated_heads(
    ctx: Context,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Rewrites attention for the TorchScript exporter: a key for each query's head, its dtype."""
    mask = attn_mask
    if _exporter_casts(query, mask, is_causal):
        mask, is_causal = _added(query, key, mask), False
    if enable_gqa:
        key, value = _repeated(key, query), _repeated(value, query)
    result = ctx.origin_func(query, key, value, mask, dropout_p, is_causal, scale=scale)
    return result if mask is None else _hidden_are_zero(result, mask)


def with_products(
    ctx: Context,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Rewrites attention for old operator sets: softmax(query keyᵀ scale + mask) value."""
    import torch

    if dropout_p or (is_causal and attn_mask is not None):  # random, or torch refuses it
        return ctx.origin_func(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    mask = attn_mask
    if is_causal or (mask is not None and mask.dtype == torch.bool):
        mask = _added(query, key, mask)
    if enable_gqa:
        key, value = _repeated(key, query), _repeated(value, query)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    weights = (query * factor) @ key.transpose(-2, -1)
    if mask is None:
        return weights.softmax(-1) @ value
    return _hidden_are_zero((weights + mask).softmax(-1) @ value, mask)


def with_four_dimensions(
    ctx: Context,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Rewrites attention for the default exporter: as many leading dimensions as it takes."""
    given, mask, batch = [query, key, value], attn_mask, query.shape[:-2]
    alike = all(each.dim() >= 2 and each.shape[:-2] == batch for each in given)
    reshaped = alike and len(batch) != 2
    if reshaped:
        given = [_four(each) for each in given]
        mask = None if mask is None else _four(mask.expand(*batch, *mask.shape[-2:]))
    result = ctx.origin_func(
        *given, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa and not reshaped
    )
    if mask is not None:
        result = _hidden_are_zero(result, mask)
    return result.reshape(*batch, *result.shape[-2:]) if reshaped else result


def _exporter_casts(query: Tensor, mask: Tensor | None, is_causal: bool) -> bool:
    """Whether the exporter would make a mask of float32, and all that it is added to."""
    import torch

    by_position = is_causal if mask is None else not is_causal and mask.dtype == torch.bool
    return by_position and query.dtype != torch.float32


def _added(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    """A mask to add in the query's dtype: −∞ where the key is hidden."""
    import torch

    if mask is None:
        rows = torch.arange(query.shape[-2], device=query.device)
        mask = torch.arange(key.shape[-2], device=query.device) <= rows[:, None]
    return torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, -math.inf)


def _four(value: Tensor) -> Tensor:
    """Four dimensions: as many as it has, or all that are too many in one."""
    if value.dim() > 4:  # batch, heads, rows, features
        return value.flatten(0, value.dim() - 4)
    return value[(None,) * (4 - value.dim())]


def _repeated(value: Tensor, query: Tensor) -> Tensor:
    """Each head of ``value`` as often in a row as ``query`` has heads for it."""
    times = query.shape[-3] // value.shape[-3]
    sizes = [-1] * value.dim()
    return value.unsqueeze(-3).expand(*sizes[:-2], times, -1, -1).flatten(-4, -3)


def _hidden_are_zero(result: Tensor, mask: Tensor) -> Tensor:
    """Zeros in the rows that the mask hides from every key."""
    import torch

    seen = mask if mask.dtype == torch.bool else mask != -math.inf
    return result.masked_fill(~seen.any(-1, keepdim=True), 0)
