"""``roll``: the TorchScript exporter wants dimensions, and shifts below their sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.targets import not_dynamo

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriters."""
    for name in ("torch.roll", "torch.Tensor.roll"):
        rewriters.function(name, ir="onnx", check=not_dynamo)(roll)


def roll(ctx: Context, input: Tensor, shifts: Any, dims: Any = ()) -> Any:  # noqa: A002  # torch's name
    """Rewrites ``torch.roll``: takes each element from where it was."""
    moves = list(shifts) if isinstance(shifts, tuple | list) else [shifts]
    axes = list(dims) if isinstance(dims, tuple | list) else [dims]
    flat = not axes and len(moves) == 1
    rank = input.dim()
    fits = len(moves) == len(axes) > 0 and all(-rank <= axis < rank for axis in axes)
    if not flat and not fits:
        return ctx.origin_func(input, shifts, dims)
    if flat:
        return _rolled(input.reshape(-1), moves[0], 0).reshape(input.shape)
    for move, axis in zip(moves, axes, strict=True):
        input = _rolled(input, move, axis)  # noqa: A001  # torch's name
    return input


def _rolled(input: Tensor, move: int, axis: int) -> Tensor:  # noqa: A002  # torch's name
    import torch

    size = input.shape[axis]
    return input.index_select(axis, (torch.arange(size, device=input.device) - move) % size)
