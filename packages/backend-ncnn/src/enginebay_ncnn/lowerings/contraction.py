"""Lowering of the grouped matrix product, in which each group of rows has its own matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay_ncnn.lowerings.common import LACKING, torch

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import LoweringContext

lowerings = eb.RewriterSet(backend="ncnn")


@lowerings.lowering("aten._grouped_mm", needs=LACKING)
def lower_grouped_mm(
    ctx: LoweringContext,
    a: Tensor,
    b: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Multiply each row of ``a`` by the matrix in ``b`` of the row's group.

    ``offs`` contains the row at which each group ends. Every row is multiplied by every matrix, and
    a mask selects the product with the matrix of the row's group.
    """
    if offs is None or a.ndim != 2 or b.ndim != 3 or bias is not None or out_dtype is not None:
        unchanged: Tensor = ctx.origin_op(a, b, offs, bias, out_dtype)
        return unchanged
    rows = torch.arange(a.shape[0]).unsqueeze(1)
    # offs contains the end of each group, so a row's group is the number of ends before the row.
    group = (rows >= offs).sum(1, keepdim=True)
    masks = [(group == number).to(a.dtype) for number in range(b.shape[0])]
    parts = [(a @ b[number]) * mask for number, mask in enumerate(masks)]
    return sum(parts[1:], parts[0])
