"""Matrix products of any rank, and attention."""

# ruff: noqa: D103 - each lowering is documented by the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from enginebay_ncnn.lowering.arithmetic import (
    broadcast,
    flat,
    lower_add,
    lower_amax,
    lower_mul,
    lower_norm,
    lower_softmax,
    lower_sub,
    lower_sum,
)
from enginebay_ncnn.lowering.layout import (
    axis_of,
    lower_expand,
    lower_permute,
    lower_transpose,
    lower_unsqueeze,
    reshape,
)
from enginebay_ncnn.lowering.registry import as_float, constant, is_constant, lowers, sizes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@lowers("matmul", "bmm", "mm", "mv", "dot")
def lower_matmul(a: Tensor, b: Tensor) -> Tensor:
    a, b = as_float(a), as_float(b)
    if a.ndim == 1 or b.ndim == 1:
        left = lower_unsqueeze(a, 0) if a.ndim == 1 else a
        right = lower_unsqueeze(b, 1) if b.ndim == 1 else b
        shape = (
            *sizes_of(a)[:-1],
            *(sizes_of(b)[:-2] if b.ndim > 1 else ()),
            *sizes_of(b)[-1:][: b.ndim - 1],
        )
        return reshape(lower_matmul(left, right), shape)
    if is_constant(b) and b.ndim == 2:
        return lower_linear(a, constant(b.t().contiguous()))
    batch = broadcast(sizes_of(a)[:-2], sizes_of(b)[:-2])
    count = math.prod(batch)
    if count == 1:
        result = reshape(a, (1, *sizes_of(a)[-2:])) @ reshape(b, (1, *sizes_of(b)[-2:]))
        return reshape(result, (*batch, *sizes_of(result)[1:]))
    left = lower_expand(a, (*batch, *sizes_of(a)[-2:]))
    right = lower_expand(b, (*batch, *sizes_of(b)[-2:]))
    # One dimension of size one stands in front, where ncnn looks for a batch.
    left = reshape(left, (1, count, *sizes_of(a)[-2:]))
    right = reshape(right, (1, count, *sizes_of(b)[-2:]))
    result = left @ right
    return reshape(result, (*batch, *sizes_of(result)[-2:]))


@lowers("linear")
def lower_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    fixed = is_constant(weight) and (bias is None or is_constant(bias))
    if not fixed or weight.ndim == 1:
        result = lower_matmul(x, lower_transpose(weight, -1, -2) if weight.ndim > 1 else weight)
        return result if bias is None else lower_add(result, bias)
    if x.ndim == 1 or (x.ndim == 2 and sizes_of(x)[0] == 1):
        return functional.linear(x, weight, bias)
    flat = reshape(x, (1, math.prod(sizes_of(x)[:-1]), sizes_of(x)[-1]))
    return reshape(functional.linear(flat, weight, bias), (*sizes_of(x)[:-1], sizes_of(weight)[0]))


@lowers("addmm")
def lower_addmm(x: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    if is_constant(x) and is_constant(b) and x.ndim == 1 and beta == alpha == 1:
        return lower_linear(a, constant(b.t().contiguous()), x)
    product = lower_matmul(a, b)
    product = product if alpha == 1 else product * alpha
    return lower_add(product, x if beta == 1 else x * beta)


@lowers("addmv")
def lower_addmv(x: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    return lower_addmm(x, a, b, beta, alpha)


@lowers("baddbmm")
def lower_baddbmm(x: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    return lower_addmm(x, a, b, beta, alpha)


@lowers("outer", "ger")
def lower_outer(a: Tensor, b: Tensor) -> Tensor:
    return lower_mul(lower_unsqueeze(a, 1), b)


@lowers("cdist")
def lower_cdist(a: Tensor, b: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    del compute_mode
    apart = lower_sub(lower_unsqueeze(a, a.ndim - 1), lower_unsqueeze(b, b.ndim - 2))
    return lower_norm(apart, p, -1)


@lowers("affine_grid_generator")
def lower_affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    count, _, *image = size
    axes = []
    for length in reversed(image):  # from -1 to 1, between the pixels' centres or their edges
        steps = torch.linspace(-1, 1, length) if length > 1 else torch.zeros(1)
        axes.append(steps if align_corners else steps * ((length - 1) / length))
    grids = torch.meshgrid(*reversed(axes), indexing="ij")
    points = torch.stack([*reversed(grids), torch.ones(list(image))], -1)
    points = constant(points.reshape(1, -1, len(image) + 1))
    found = lower_matmul(points, lower_transpose(theta, 1, 2))
    return reshape(found, (count, *image, len(image)))


@lowers("scaled_dot_product_attention")
def lower_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,  # noqa: ARG001 - nothing is dropped in evaluation
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    mask_is_bool: bool = False,
) -> Tensor:
    if enable_gqa:
        groups = sizes_of(query)[-3] // sizes_of(key)[-3]
        key, value = (_repeat_heads(each, groups) for each in (key, value))
    factor = sizes_of(query)[-1] ** -0.5 if scale is None else scale
    scores = lower_matmul(lower_mul(query, factor), lower_transpose(key, -1, -2))
    if is_causal:
        causal = torch.ones(sizes_of(scores)[-2:], dtype=torch.bool).tril()
        attn_mask = constant(causal)
    if attn_mask is None:
        return lower_matmul(lower_softmax(scores, -1), value)
    if mask_is_bool or attn_mask.dtype is torch.bool:
        scores = lower_add(scores, flat(lambda t: (t - 1.0) * 1e30, as_float(attn_mask)))
        return _zero_hidden_rows(lower_matmul(lower_softmax(scores, -1), value), attn_mask)
    scores = lower_add(scores, flat(lambda t: t.clamp(-1e30, 3e38), attn_mask))
    return lower_matmul(lower_softmax(scores, -1), value)


def _zero_hidden_rows(result: Tensor, mask: Tensor) -> Tensor:
    """Return zeros, as torch does, in the rows where a boolean mask hides every key.

    A softmax makes equal weights of scores that are all -1e30, and the row a mean of the values.
    """
    if is_constant(mask) and bool(mask.any(-1).all()):
        return result  # each row of a causal mask, for one, sees itself
    return lower_mul(result, lower_amax(as_float(mask), -1, True))


def _repeat_heads(x: Tensor, groups: int) -> Tensor:
    shape = (*sizes_of(x)[:-3], sizes_of(x)[-3] * groups, *sizes_of(x)[-2:])
    wide = lower_unsqueeze(x, axis_of(x, -2))
    return reshape(lower_expand(wide, (*sizes_of(x)[:-2], groups, *sizes_of(x)[-2:])), shape)


@lowers("einsum")
def lower_einsum(equation: str, operands: Sequence[Tensor], **_: Any) -> Tensor:
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if "." in inputs:
        terms, output = _spelled_out(terms, output, arrow, operands)
        arrow = "->"
    if not arrow:
        letters = "".join(terms)
        output = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    result, term = operands[0], terms[0]
    for place in range(1, len(terms)):
        later = output + "".join(terms[place + 1 :])
        result, term = _contract(result, term, operands[place], terms[place], later)
    summed = [axis for axis, letter in enumerate(term) if letter not in output]
    if summed:
        result = lower_sum(result, summed)
        term = "".join(letter for letter in term if letter in output)
    return lower_permute(result, [term.index(letter) for letter in output])


def _spelled_out(
    terms: list[str], output: str, arrow: str, operands: Sequence[Tensor]
) -> tuple[list[str], str]:
    """Letters in the ellipses' places."""
    spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in "".join(terms)]
    widths = [
        len(sizes_of(operand)) - len(term) + 3 if "." in term else 0
        for term, operand in zip(terms, operands, strict=True)
    ]
    front = "".join(spare[: max(widths)])
    if not arrow:
        letters = "".join(terms)
        single = [c for c in set(letters) - {"."} if letters.count(c) == 1]
        output = "..." + "".join(sorted(single))
    spelled = [
        term.replace("...", front[len(front) - width :])
        for term, width in zip(terms, widths, strict=True)
    ]
    return spelled, output.replace("...", front)


def _contract(a: Tensor, left: str, b: Tensor, right: str, later: str) -> tuple[Tensor, str]:
    """Two operands as one batched matrix product."""
    sizes = dict(zip(left, sizes_of(a), strict=True)) | dict(zip(right, sizes_of(b), strict=True))
    both = [c for c in left if c in right]
    batch = [c for c in both if c in later]
    inner = [c for c in both if c not in later]
    rows = [c for c in left if c not in right]
    columns = [c for c in right if c not in left]

    def grouped(x: Tensor, term: str, *groups: list[str]) -> Tensor:
        x = lower_permute(x, [term.index(c) for group in groups for c in group])
        return reshape(x, [math.prod(sizes[c] for c in group) for group in groups])

    if not inner:
        spread = "".join(batch + rows + columns)
        product = lower_mul(_spread(a, left, spread, sizes), _spread(b, right, spread, sizes))
        return product, spread
    product = lower_matmul(
        grouped(a, left, batch, rows, inner), grouped(b, right, batch, inner, columns)
    )
    term = "".join(batch + rows + columns)
    return reshape(product, [sizes[c] for c in term]), term


def _spread(x: Tensor, term: str, letters: str, sizes: dict[str, int]) -> Tensor:
    kept = [c for c in letters if c in term]
    x = lower_permute(x, [term.index(c) for c in kept])
    return reshape(x, [sizes[c] if c in term else 1 for c in letters])
