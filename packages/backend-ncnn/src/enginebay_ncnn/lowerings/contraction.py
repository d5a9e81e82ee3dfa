"""Products of matrices in groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay_ncnn.lowerings.common import LACKING, torch

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import LoweringContext

lowerings = eb.RewriterSet(backend="ncnn")


@lowerings.lowering("aten._grouped_mm", needs=LACKING)
def grouped_mm(
    ctx: LoweringContext,
    a: Tensor,
    b: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """Rows in groups, each with a matrix of its own: every row by every matrix, and one kept."""
    if offs is None or a.ndim != 2 or b.ndim != 3 or bias is not None or out_dtype is not None:
        own: Tensor = ctx.origin_op(a, b, offs, bias, out_dtype)
        return own
    rows = torch.arange(a.shape[0]).unsqueeze(1)
    group = (rows >= offs).sum(1, keepdim=True)
    kept = [(group == number).to(a.dtype) for number in range(b.shape[0])]
    parts = [(a @ b[number]) * mask for number, mask in enumerate(kept)]
    return sum(parts[1:], parts[0])
