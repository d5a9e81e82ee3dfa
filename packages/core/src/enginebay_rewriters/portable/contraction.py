"""Lowerings of einsum, bilinear forms, norms and distances to matrix products."""

from __future__ import annotations

import math
import string
from typing import TYPE_CHECKING, Any

from enginebay_rewriters.portable.common import lowers, lowers_complex, torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from enginebay.authors import LoweringContext

#: torch computes the distances of more rows than this by a matrix product.
_CDIST_ROWS = 25


@lowers("addmv", open_sizes=True)
def addmv(
    ctx: LoweringContext, x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    return _scaled_sum(x, a @ b, beta, alpha)


@lowers("addbmm", open_sizes=True)
def addbmm(
    ctx: LoweringContext, x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    return _scaled_sum(x, (a @ b).sum(0), beta, alpha)


def _scaled_sum(x: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    # With a beta of 0, NaN in x must not reach the result.
    return product * alpha + x * beta if beta else (product * alpha).expand(x.shape)


@lowers("_cdist_forward", open_sizes=True)
def cdist(ctx: LoweringContext, a: Tensor, b: Tensor, p: float, compute_mode: int | None) -> Tensor:
    if p == 2 and max(a.shape[-2], b.shape[-2]) > _CDIST_ROWS and compute_mode in (None, 0, 1):
        # |a − b|² = |a|² + |b|² − 2a·b
        lengths = a.square().sum(-1, keepdim=True) + b.square().sum(-1).unsqueeze(-2)
        return (lengths - 2 * (a @ b.mT)).clamp(min=0).sqrt()
    result: Tensor = torch.linalg.vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, -1)
    return result


@lowers("linalg_vector_norm", open_sizes=True)
def linalg_vector_norm(
    ctx: LoweringContext,
    x: Tensor,
    p: float = 2,
    dim: Sequence[int] | int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    lengths = x.to(dtype or x.dtype).abs()
    axes: Any = list(range(x.ndim)) if dim is None or dim == [] else dim
    if p == 0:
        return (lengths != 0).sum(axes, keepdim, dtype=lengths.dtype)
    if math.isinf(p):
        return lengths.amax(axes, keepdim) if p > 0 else lengths.amin(axes, keepdim)
    if p == 1:
        return lengths.sum(axes, keepdim)
    if p == 2:
        return lengths.square().sum(axes, keepdim).sqrt()
    return lengths.pow(p).sum(axes, keepdim).pow(1 / p)


@lowers("_pdist_forward")
def pdist(ctx: LoweringContext, x: Tensor, p: float = 2) -> Tensor:
    first, second = torch.triu_indices(len(x), len(x), 1, device=x.device)
    difference = x[first] - x[second]
    if not difference.numel():  # torch's fake norm raises for an infinite p
        return difference.sum(-1)
    result: Tensor = torch.linalg.vector_norm(difference, p, -1)
    return result


@lowers("bilinear", open_sizes=True)
def bilinear(
    ctx: LoweringContext, a: Tensor, b: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    outputs, left, right = weight.shape
    matrix = weight.permute(1, 0, 2).reshape(left, outputs * right)
    half = (a @ matrix).reshape(*a.shape[:-1], outputs, right)
    result = (half @ b.unsqueeze(-1)).squeeze(-1)
    return result if bias is None else result + bias


@lowers("affine_grid_generator", open_sizes=True)
def affine_grid_generator(
    ctx: LoweringContext, theta: Tensor, size: Sequence[int], align_corners: bool
) -> Tensor:
    """Multiply all points of a grid from −1 to 1 by ``theta`` in one matrix product."""
    count, _, *image = size
    options: Any = {"dtype": theta.dtype, "device": theta.device}
    axes = []
    for length in image:  # ±1 are the centres of the first and last pixel, or their outer edges
        steps = torch.arange(length, **options) * 2 - (length - 1)
        axes.append(steps / (max(length - 1, 1) if align_corners else length))
    grids = [*reversed(torch.meshgrid(axes, indexing="ij")), torch.ones(image, **options)]
    points = torch.stack(grids, -1).reshape(-1, len(grids))
    return (points @ theta.mT).reshape(count, *image, len(image))


@lowers_complex("einsum")
@lowers("einsum", open_sizes=True)
def einsum(
    ctx: LoweringContext, equation: str, operands: Sequence[Tensor], *, path: object = None
) -> Tensor:
    """Contract the operands from left to right, each with the result so far by one product."""
    # torch's own decomposition permutes more often.
    terms, output = _expand_equation(equation, operands)
    sizes: dict[str, int] = {}
    for term, operand in zip(terms, operands, strict=True):
        for letter, size in zip(term, operand.shape, strict=True):
            if sizes.setdefault(letter, size) != size or term.count(letter) > 1:
                original: Tensor = ctx.origin_op(equation, operands, path=path)
                return original  # a diagonal, or a broadcast dimension
    result, term = operands[0], terms[0]
    for position in range(1, len(terms)):
        later = output + "".join(terms[position + 1 :])
        result, term = _contract_pair(
            result, term, operands[position], terms[position], later, sizes
        )
    # Dimensions of a single operand that the result does not have.
    summed = [axis for axis, letter in enumerate(term) if letter not in output]
    if summed:
        result = result.sum(summed)
        term = "".join(letter for letter in term if letter in output)
    return result.permute([term.index(letter) for letter in output])


def _expand_equation(equation: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result; an ellipsis becomes new letters."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    spare = [letter for letter in string.ascii_uppercase if letter not in equation]
    widths = [
        operand.ndim - len(term) + 3 if "." in term else 0
        for term, operand in zip(terms, operands, strict=True)
    ]
    front = "".join(spare[: max(widths)])
    if not arrow:
        letters = inputs.replace(",", "").replace(".", "")
        output = "..." * ("." in inputs) + "".join(
            sorted(letter for letter in set(letters) if letters.count(letter) == 1)
        )
    spelled = [
        term.replace("...", front[len(front) - width :])
        for term, width in zip(terms, widths, strict=True)
    ]
    return spelled, output.replace("...", front)


def _contract_pair(
    a: Tensor, left: str, b: Tensor, right: str, later: str, sizes: dict[str, int]
) -> tuple[Tensor, str]:
    """Contract two operands of ``einsum`` by a batched matrix product or an elementwise product.

    ``left`` has one letter for each dimension of ``a``, and ``right`` for each dimension of ``b``.
    ``later`` has the letters of the later operands and of the final result. A dimension is summed
    over if its letter is in ``left`` and ``right``, but not in ``later``. The function returns the
    contraction and the letters of its dimensions.
    """
    batch = [letter for letter in left if letter in right and letter in later]
    inner = [letter for letter in left if letter in right and letter not in later]
    rows = [letter for letter in left if letter not in right]
    columns = [letter for letter in right if letter not in left]
    term = "".join([*batch, *rows, *columns])

    def group_axes(x: Tensor, letters: str, *groups: list[str]) -> Tensor:
        x = x.permute([letters.index(letter) for group in groups for letter in group])
        return x.reshape([math.prod(sizes[letter] for letter in group) for group in groups])

    if not inner:
        product = group_axes(a, left, batch, rows).unsqueeze(2) * group_axes(
            b, right, batch, columns
        ).unsqueeze(1)
    else:
        product = group_axes(a, left, batch, rows, inner) @ group_axes(
            b, right, batch, inner, columns
        )
    return product.reshape([sizes[letter] for letter in term]), term
