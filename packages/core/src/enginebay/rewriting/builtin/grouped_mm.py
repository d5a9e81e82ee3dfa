"""Matrix products of groups of rows, each with a matrix of its own: mixtures of experts.

No exporter has a translation, and no engine an operator, for as many rows as the data say.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context, Target


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriters: for torch's names, and for what transformers calls during a capture."""
    for name in ("torch.nn.functional.grouped_mm", "torch._grouped_mm"):
        rewriters.function(name)(grouped_mm)
    name = "torch.ops.transformers.grouped_mm_fallback"
    rewriters.function(name, check=_transformers_has_it)(grouped_mm)


def _transformers_has_it(target: Target) -> bool:  # noqa: ARG001  # every check takes the target
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch.ops.transformers, "grouped_mm_fallback")


def grouped_mm(
    ctx: Context,
    rows: Tensor,
    matrices: Tensor,
    offs: Tensor | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Rewrites the product of rows (S×K) in groups and matrices (G×K×N), of S×N.

    Every matrix meets every row, and each row keeps the product of its group: G times the
    multiplications, in a graph without sizes that depend on data. Rows behind the last group,
    which torch leaves undefined, are zeros.
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
