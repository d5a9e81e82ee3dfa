"""``diff``: the TorchScript exporter has no translation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.targets import not_dynamo

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriters."""
    for name in ("torch.diff", "torch.Tensor.diff"):
        rewriters.function(name, ir="onnx", check=not_dynamo)(diff)


def diff(
    ctx: Context,
    input: Tensor,  # noqa: A002  # torch's name
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    **kwargs: Any,
) -> Any:
    """Rewrites ``torch.diff``: takes each element from the next one, ``n`` times."""
    import torch

    # Promotion, shapes that do not fit and n = 0 have rules of their own.
    parts = [part for part in (prepend, input, append) if part is not None]
    alike = all((part.dim(), part.dtype) == (input.dim(), input.dtype) for part in parts)
    if kwargs or n < 1 or not alike or not -input.dim() <= dim < input.dim():
        return ctx.origin_func(input, n, dim, prepend, append, **kwargs)
    values = torch.cat(parts, dim) if len(parts) > 1 else input
    for _ in range(n):
        if values.shape[dim] == 0:
            break
        pairs = values.shape[dim] - 1
        later, earlier = values.narrow(dim, 1, pairs), values.narrow(dim, 0, pairs)
        values = later ^ earlier if values.dtype == torch.bool else later - earlier
    return values
