"""``Tensor.unfold``: the TorchScript exporter gives a negative dimension wrong windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.targets import not_dynamo

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriter."""
    rewriters.function("torch.Tensor.unfold", ir="onnx", check=not_dynamo)(unfold)


def unfold(ctx: Context, input: Tensor, dimension: int, size: int, step: int) -> Any:  # noqa: A002  # torch's name
    """Rewrites ``Tensor.unfold``: counts the dimension from the front."""
    rank = input.dim()
    front = dimension % rank if -rank <= dimension < rank else dimension
    return ctx.origin_func(input, front, size, step)
