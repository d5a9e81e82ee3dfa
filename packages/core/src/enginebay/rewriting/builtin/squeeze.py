"""``squeeze`` of dimensions that are not 1, and of several.

The default exporter removes a dimension of another size all the same, and the engine refuses the
file. The TorchScript exporter takes one dimension only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriters."""
    for name in ("torch.squeeze", "torch.Tensor.squeeze"):
        rewriters.function(name, ir="onnx")(squeeze)


def squeeze(ctx: Context, input: Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: A002  # torch's name
    """Rewrites ``torch.squeeze``: one dimension after the other, from the last."""
    import torch

    dims = _dims(input, *args, **kwargs)
    # The TorchScript exporter asks for the size by itself, and each look at one is a node to it.
    by_itself = torch._C._get_tracing_state() is not None
    if dims is None or (by_itself and len(dims) == 1):
        return ctx.origin_func(input, *args, **kwargs)
    for dim in sorted(dims, reverse=True):
        if by_itself or input.shape[dim] == 1:
            input = ctx.origin_func(input, dim)  # noqa: A001  # torch's name
    return input


def _dims(input: Tensor, dim: Any = None, *rest: Any, **others: Any) -> list[int] | None:  # noqa: A002  # torch's name
    """The dimensions from the front; None where the call is for the original to judge."""
    dims = list(dim) if isinstance(dim, tuple | list) else [dim]
    rank = input.dim()
    valid = all(type(each) is int and -rank <= each < rank for each in dims)
    if rest or others or not valid or not dims:
        return None
    front = [each % rank for each in dims]
    return front if len(set(front)) == len(front) else None
