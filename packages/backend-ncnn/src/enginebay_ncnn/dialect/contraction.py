"""Matrix products of any rank, and attention."""

# ruff: noqa: D103 - each function writes the operator whose name it carries
from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from enginebay_ncnn.dialect.arithmetic import broadcast, flat, write_add, write_mul
from enginebay_ncnn.dialect.layout import (
    as_three,
    axis_of,
    reshape,
    write_expand,
    write_transpose,
    write_unsqueeze,
)
from enginebay_ncnn.dialect.reductions import write_amax, write_softmax
from enginebay_ncnn.dialect.values import Value, as_float, emit, is_constant


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
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    count = math.prod(batch)
    if count == 1:
        left, right = (reshape(each, (1, *each.shape[-2:])) for each in (a, b))
        result = emit(torch.matmul, left, right)
        return reshape(result, (*batch, *result.shape[1:]))
    left = write_expand(a, (*batch, *a.shape[-2:]))
    right = write_expand(b, (*batch, *b.shape[-2:]))
    # One dimension of size one stands in front, where ncnn looks for a batch.
    left = reshape(left, (1, count, *a.shape[-2:]))
    right = reshape(right, (1, count, *b.shape[-2:]))
    result = emit(torch.matmul, left, right)
    return reshape(result, (*batch, *result.shape[-2:]))


write_mm = write_bmm = write_matmul


def write_cumsum(x: Value, dim: int, **_: Any) -> Value:
    if not x.ndim:
        return x
    dim = axis_of(x, dim)
    size = x.shape[dim]
    below = torch.ones(size, size).tril()
    return reshape(write_matmul(below, as_three(x, dim)), x.shape)


def write_linear(x: Value, weight: Value, bias: Value | None = None) -> Value:
    fixed = is_constant(weight) and (bias is None or is_constant(bias))
    if not fixed or weight.ndim == 1:
        result = write_matmul(x, write_transpose(weight, -1, -2) if weight.ndim > 1 else weight)
        return result if bias is None else write_add(result, bias)
    if x.ndim == 1 or (x.ndim == 2 and x.shape[0] == 1):
        return emit(functional.linear, x, weight, bias)
    rows = reshape(x, (1, math.prod(x.shape[:-1]), x.shape[-1]))
    return reshape(emit(functional.linear, rows, weight, bias), (*x.shape[:-1], weight.shape[0]))


def write_addmm(x: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    if is_constant(x) and isinstance(b, torch.Tensor) and x.ndim == 1 and beta == alpha == 1:
        return write_linear(a, b.t().contiguous(), x)
    product = write_matmul(a, b)
    product = product if alpha == 1 else write_mul(product, alpha)
    return write_add(product, x if beta == 1 else write_mul(x, beta))


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
    apart: bool = False,
) -> Value:
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (_repeat_heads(each, groups) for each in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = write_matmul(write_mul(query, factor), write_transpose(key, -1, -2))
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is None:
        return write_matmul(write_softmax(scores, -1, apart=apart), value)
    if attn_mask.dtype is torch.bool:
        scores = write_add(scores, flat(lambda t: (t - 1.0) * 1e30, attn_mask))
        found = write_matmul(write_softmax(scores, -1, apart=apart), value)
        return _zero_hidden_rows(found, attn_mask)
    scores = write_add(scores, flat(lambda t: t.clamp(-1e30, 3e38), attn_mask))
    return write_matmul(write_softmax(scores, -1, apart=apart), value)


def _zero_hidden_rows(result: Value, mask: Value) -> Value:
    """Return zeros, as torch does, in the rows where a boolean mask hides every key.

    A softmax makes equal weights of scores that are all -1e30, and the row a mean of the values.
    """
    if isinstance(mask, torch.Tensor) and bool(mask.any(-1).all()):
        return result  # each row of a causal mask, for one, sees itself
    return write_mul(result, write_amax(mask, -1, True))


def _repeat_heads(x: Value, groups: int) -> Value:
    shape = (*x.shape[:-3], x.shape[-3] * groups, *x.shape[-2:])
    wide = write_unsqueeze(x, axis_of(x, -2))
    return reshape(write_expand(wide, (*x.shape[:-2], groups, *x.shape[-2:])), shape)
