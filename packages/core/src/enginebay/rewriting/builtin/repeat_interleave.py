"""``repeat_interleave`` by a number: the TorchScript exporter trips over its own shapes.

It splits the tensor in as many parts as the dimension is long, and an internal check of the shapes
that it works out fails for some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.targets import not_dynamo

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriters."""
    for name in ("torch.repeat_interleave", "torch.Tensor.repeat_interleave"):
        rewriters.function(name, ir="onnx", check=not_dynamo)(repeat_interleave)


def repeat_interleave(
    ctx: Context,
    input: Tensor,  # noqa: A002  # torch's name
    repeats: Any = None,
    dim: int | None = None,
    **kwargs: Any,
) -> Any:
    """Rewrites ``torch.repeat_interleave``: a dimension of repetitions, folded into the other."""
    if type(repeats) is not int or kwargs or (repeats < 0 or input.dim() == 0):
        given = () if repeats is None else (repeats, dim)
        return ctx.origin_func(input, *given, **kwargs)
    axis = 0 if dim is None else dim
    values = input.reshape(-1) if dim is None else input
    if not -values.dim() <= axis < values.dim():
        return ctx.origin_func(input, repeats, dim)
    axis %= values.dim()
    sizes = [-1] * (values.dim() + 1)
    sizes[axis + 1] = repeats
    return values.unsqueeze(axis + 1).expand(sizes).flatten(axis, axis + 1)
