"""Rewriter of ``grouped_mm``, which multiplies groups of rows by different matrices (experts).

The sizes of the groups are values of a tensor. Therefore no exporter translates ``grouped_mm``, and
no engine has an operator for it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from enginebay_rewriters.builtin.common import rewriters

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import Context
    from enginebay_rewriters.builtin.common import ExportTarget


def _has_transformers_fallback(target: ExportTarget) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch.ops.transformers, "grouped_mm_fallback")


# transformers calls grouped_mm_fallback while a model is captured.
@rewriters.function("torch.nn.functional.grouped_mm")
@rewriters.function("torch._grouped_mm")
@rewriters.function("torch.ops.transformers.grouped_mm_fallback", check=_has_transformers_fallback)
def grouped_mm(
    ctx: Context,
    rows: Tensor,
    matrices: Tensor,
    offs: Tensor | None = None,
    *args: object,
    **kwargs: object,
) -> object:
    """Multiply all rows (S×K) by each of G matrices (K×N); select each row's result by its group.

    This requires G times as many multiplications, but no shape depends on values. torch leaves the
    rows after the last group undefined; here they are zeros.
    """
    import torch

    has_options = args or any(value is not None for value in kwargs.values())
    if has_options or offs is None or (rows.dim(), matrices.dim()) != (2, 3):
        return ctx.origin_func(rows, matrices, offs, *args, **kwargs)
    position = torch.arange(rows.shape[0], device=rows.device).unsqueeze(1)
    group = (position >= offs).to(torch.int64).sum(1, keepdim=True)
    result = torch.zeros_like(rows @ matrices[0])
    for number in range(matrices.shape[0]):
        result = torch.where(group == number, rows @ matrices[number], result)
    return result
