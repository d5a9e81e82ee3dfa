"""Products of groups of rows, each with a matrix of its own: mixtures of experts.

No exporter has a translation, and no engine an operator, for groups whose sizes are data.
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


# The last is what transformers calls instead while a model is captured.
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
    """Multiply every row (S×K) by every matrix (G×K×N), and keep its group's product (S×N).

    That is G times the multiplications, in a graph without sizes that depend on data. Rows behind
    the last group, which torch leaves undefined, are zeros.
    """
    import torch

    more = args or any(value is not None for value in kwargs.values())
    if more or offs is None or (rows.dim(), matrices.dim()) != (2, 3):
        return ctx.origin_func(rows, matrices, offs, *args, **kwargs)
    place = torch.arange(rows.shape[0], device=rows.device).unsqueeze(1)
    group = (place >= offs).to(torch.int64).sum(1, keepdim=True)
    result = torch.zeros_like(rows @ matrices[0])
    for number in range(matrices.shape[0]):
        result = torch.where(group == number, rows @ matrices[number], result)
    return result
