"""Express attention, and matrix products of operands of any rank, with ncnn's layers."""

# ruff: noqa: D103 - each function writes the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from enginebay_ncnn.dialect.arithmetic import apply_unary, broadcast_shapes, write_add, write_mul
from enginebay_ncnn.dialect.layout import (
    as_outer_dim_inner,
    normalize_axis,
    reshape,
    write_expand,
    write_transpose,
    write_unsqueeze,
)
from enginebay_ncnn.dialect.reductions import write_amax, write_softmax
from enginebay_ncnn.dialect.values import Value, as_float, emit_call, is_constant

if TYPE_CHECKING:
    from collections.abc import Callable


def write_matmul(a: Value, b: Value) -> Value:
    a, b = as_float(a), as_float(b)
    if a.ndim == 1 or b.ndim == 1:
        left = write_unsqueeze(a, 0) if a.ndim == 1 else a
        right = write_unsqueeze(b, 1) if b.ndim == 1 else b
        shape = (
            *a.shape[:-1],
            *(b.shape[:-2] if b.ndim > 1 else ()),
            *b.shape[-1:][: b.ndim - 1],
        )
        return reshape(write_matmul(left, right), shape)
    if not isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and b.ndim == 2:
        return write_linear(a, b.t().contiguous())
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    count = math.prod(batch)
    if count == 1:
        left, right = (reshape(each, (1, *each.shape[-2:])) for each in (a, b))
        result = emit_call(torch.matmul, left, right)
        return reshape(result, (*batch, *result.shape[1:]))
    left = write_expand(a, (*batch, *a.shape[-2:]))
    right = write_expand(b, (*batch, *b.shape[-2:]))
    # ncnn takes the first dimension for the batch: put one of size one there.
    left = reshape(left, (1, count, *a.shape[-2:]))
    right = reshape(right, (1, count, *b.shape[-2:]))
    result = emit_call(torch.matmul, left, right)
    return reshape(result, (*batch, *result.shape[-2:]))


def write_cumsum(operand: Value, dim: int, **_: object) -> Value:
    if not operand.ndim:
        return operand
    dim = normalize_axis(operand, dim)
    size = operand.shape[dim]
    lower = torch.ones(size, size).tril()  # a running sum is a product with this matrix
    return reshape(write_matmul(lower, as_outer_dim_inner(operand, dim)), operand.shape)


def write_linear(operand: Value, weight: Value, bias: Value | None = None) -> Value:
    has_constants = is_constant(weight) and (bias is None or is_constant(bias))
    if not has_constants or weight.ndim == 1:
        result = write_matmul(
            operand, write_transpose(weight, -1, -2) if weight.ndim > 1 else weight
        )
        return result if bias is None else write_add(result, bias)
    if operand.ndim == 1 or (operand.ndim == 2 and operand.shape[0] == 1):
        return emit_call(functional.linear, operand, weight, bias)
    rows = reshape(operand, (1, math.prod(operand.shape[:-1]), operand.shape[-1]))
    return reshape(
        emit_call(functional.linear, rows, weight, bias), (*operand.shape[:-1], weight.shape[0])
    )


def write_addmm(operand: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    if (
        is_constant(operand)
        and isinstance(b, torch.Tensor)
        and operand.ndim == 1
        and beta == alpha == 1
    ):
        return write_linear(a, b.t().contiguous(), operand)
    product = write_matmul(a, b)
    product = product if alpha == 1 else write_mul(product, alpha)
    return write_add(product, operand if beta == 1 else write_mul(operand, beta))


def write_scaled_dot_product_attention(
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,  # noqa: ARG001 - nothing is dropped in evaluation
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    split_attention: bool = False,
) -> Value:
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (_repeat_heads(each, groups) for each in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = write_matmul(write_mul(query, factor), write_transpose(key, -1, -2))
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is None:
        return write_matmul(write_softmax(scores, -1, split_attention=split_attention), value)
    if attn_mask.dtype is torch.bool:
        # -1e30 hides a key like -infinity, which ncnn does not handle.
        scores = write_add(scores, apply_unary(lambda t: (t - 1.0) * 1e30, attn_mask))
        result = write_matmul(write_softmax(scores, -1, split_attention=split_attention), value)
        return _zero_hidden_rows(result, attn_mask)
    scores = write_add(scores, apply_unary(lambda t: t.clamp(-1e30, 3e38), attn_mask))
    return write_matmul(write_softmax(scores, -1, split_attention=split_attention), value)


def _zero_hidden_rows(result: Value, mask: Value) -> Value:
    """Return an attention's result with 0 in each row for which the mask hides all keys."""
    # In such a row all scores are -1e30, so the softmax returns equal weights, and the result would
    # be the mean of the values.
    if isinstance(mask, torch.Tensor) and bool(mask.any(-1).all()):
        return result  # no row hides every key, as in a causal mask
    return write_mul(result, write_amax(mask, -1, True))


def _repeat_heads(operand: Value, groups: int) -> Value:
    shape = (*operand.shape[:-3], operand.shape[-3] * groups, *operand.shape[-2:])
    wide = write_unsqueeze(operand, normalize_axis(operand, -2))
    return reshape(write_expand(wide, (*operand.shape[:-2], groups, *operand.shape[-2:])), shape)


#: The writers of this file by the names of their operators.
WRITERS: dict[str, Callable[..., Any]] = {
    "matmul": write_matmul,
    "mm": write_matmul,
    "bmm": write_matmul,
    "addmm": write_addmm,
    "linear": write_linear,
    "scaled_dot_product_attention": write_scaled_dot_product_attention,
    "cumsum": write_cumsum,
}
