"""``permute``: the TorchScript exporter writes negative dimensions down as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.targets import not_dynamo

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriters."""
    for name in ("torch.permute", "torch.Tensor.permute"):
        rewriters.function(name, ir="onnx", check=not_dynamo)(permute)


def permute(ctx: Context, input: Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: A002  # torch's name
    """Rewrites ``torch.permute``: counts every dimension from the front."""
    given = kwargs.get("dims", args[0] if len(args) == 1 else args)
    dims = list(given) if isinstance(given, tuple | list) else [given]
    rank = input.dim()
    if len(args) + len(kwargs) == 0 or any(dim < -rank for dim in dims):
        return ctx.origin_func(input, *args, **kwargs)
    return ctx.origin_func(input, [dim + rank if dim < 0 else dim for dim in dims])
