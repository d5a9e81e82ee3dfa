"""Systems of equations, solved one row after the other."""

# ruff: noqa: D103 - each lowering is documented by the operator whose name it carries
from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from enginebay_ncnn.lowering.arithmetic import broadcast, lower_div, lower_sub
from enginebay_ncnn.lowering.contraction import lower_matmul
from enginebay_ncnn.lowering.layout import lower_cat, lower_expand, lower_transpose, narrow
from enginebay_ncnn.lowering.registry import UnsupportedError, lowers, sizes_of

if TYPE_CHECKING:
    from torch import Tensor

#: So many rows are solved; each is some layers.
_ROWS = 128


@lowers("linalg_solve_triangular")
def lower_solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    if not left:
        turned = (lower_transpose(each, -1, -2) for each in (a, b))
        found = lower_solve_triangular(*turned, upper=not upper, unitriangular=unitriangular)
        return lower_transpose(found, -1, -2)
    count = sizes_of(a)[-1]
    if count > _ROWS:
        raise UnsupportedError(f"a triangular system of more than {_ROWS} equations")
    batch = broadcast(sizes_of(a)[:-2], sizes_of(b)[:-2])
    b = lower_expand(b, (*batch, *sizes_of(b)[-2:]))
    solved: Tensor | None = None
    for row in reversed(range(count)) if upper else range(count):
        result = narrow(b, -2, row, 1)
        factors = narrow(a, -2, row, 1)
        if solved is not None:
            known = (
                narrow(factors, -1, row + 1, count - row - 1)
                if upper
                else narrow(factors, -1, 0, row)
            )
            result = lower_sub(result, lower_matmul(known, solved))
        if not unitriangular:
            result = lower_div(result, narrow(factors, -1, row, 1))
        if solved is None:
            solved = result
        else:
            solved = lower_cat([result, solved] if upper else [solved, result], -2)
    assert solved is not None
    return solved


@lowers("triangular_solve")
def lower_old_triangular_solve(
    b: Tensor,
    a: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Tensor, Tensor]:
    turned = lower_transpose(a, -1, -2) if transpose else a
    found = lower_solve_triangular(turned, b, upper=upper != transpose, unitriangular=unitriangular)
    return found, torch.clone(a)
