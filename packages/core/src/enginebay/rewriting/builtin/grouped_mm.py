"""``grouped_mm``: products of groups of rows with one matrix each, used by mixtures of experts.

The sizes of the groups are data: no exporter has a translation, and no engine an operator.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.common import rewriters

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.rewriter import Context, Target


def _transformers_has_it(target: Target) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch.ops.transformers, "grouped_mm_fallback")


# transformers calls the last one while a model is captured.
@rewriters.function("torch.nn.functional.grouped_mm")
@rewriters.function("torch._grouped_mm")
@rewriters.function("torch.ops.transformers.grouped_mm_fallback", check=_transformers_has_it)
def grouped_mm(
    ctx: Context,
    rows: Tensor,
    matrices: Tensor,
    offs: Tensor | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Multiply every row (S×K) by every matrix (G×K×N), and select its group's product (S×N).

    It needs G times the multiplications, but no size depends on data. Rows after the last group,
    which are undefined in torch, are zeros.
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
