"""``any`` and ``all`` of numbers.

The TorchScript exporter truncates them before it asks whether they are zero, and both exporters
answer bool for uint8, of which torch makes uint8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriters."""
    for name in ("torch.any", "torch.all", "torch.Tensor.any", "torch.Tensor.all"):
        rewriters.function(name, ir="onnx")(of_numbers)


def of_numbers(ctx: Context, input: Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: A002  # torch's name
    """Rewrites ``torch.any`` and ``torch.all``: asks of each number whether it is one first."""
    import torch

    right = input.dtype == torch.bool or (ctx.exporter == "dynamo" and input.dtype != torch.uint8)
    if right or "out" in kwargs:
        return ctx.origin_func(input, *args, **kwargs)
    found = ctx.origin_func(input != 0, *args, **kwargs)
    return found.to(torch.uint8) if input.dtype == torch.uint8 else found
