"""Rewriters of ``permute``, ``unfold``, ``squeeze``, ``mT``, ``mH`` and ``adjoint``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay_rewriters.builtin.common import is_tracing, not_dynamo, rewriters

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import Context


# TorchScript writes negative dimensions into Transpose, which no engine loads.
@rewriters.function("torch.permute", ir="onnx", check=not_dynamo)
@rewriters.function("torch.Tensor.permute", ir="onnx", check=not_dynamo)
def permute(ctx: Context, input: Tensor, *args: Any, **kwargs: Any) -> object:
    """Call torch's function with non-negative dimensions."""
    argument = kwargs.get("dims", args[0] if len(args) == 1 else args)
    dims = list(argument) if isinstance(argument, tuple | list) else [argument]
    rank = input.dim()
    if len(args) + len(kwargs) == 0 or any(dim < -rank for dim in dims):
        return ctx.origin_func(input, *args, **kwargs)
    return ctx.origin_func(input, [dim + rank if dim < 0 else dim for dim in dims])


# TorchScript writes wrong windows for a negative dimension.
@rewriters.function("torch.Tensor.unfold", ir="onnx", check=not_dynamo)
def unfold(ctx: Context, input: Tensor, dimension: int, size: int, step: int) -> object:
    """Call torch's function with a non-negative dimension."""
    rank = input.dim()
    positive = dimension % rank if -rank <= dimension < rank else dimension
    return ctx.origin_func(input, positive, size, step)


# dynamo writes the removal of a dimension whose size is not 1, and the engine refuses the file.
# TorchScript accepts only one dimension.
@rewriters.function("torch.squeeze", ir="onnx")
@rewriters.function("torch.Tensor.squeeze", ir="onnx")
def squeeze(ctx: Context, input: Tensor, *args: object, **kwargs: object) -> object:
    """Remove one dimension after the other, the last dimension first."""
    dims = _positive_dims(input, *args, **kwargs)
    # TorchScript checks sizes in the graph itself; reading a size here would add a node.
    tracing = is_tracing()
    if dims is None or (tracing and len(dims) == 1):
        return ctx.origin_func(input, *args, **kwargs)
    for dim in sorted(dims, reverse=True):
        if tracing or input.shape[dim] == 1:
            input = ctx.origin_func(input, dim)
    return input


def _positive_dims(
    input: Tensor, dim: Any = None, *rest: object, **others: object
) -> list[int] | None:
    """Return non-negative dimensions; None if the rewriters do not support the arguments."""
    dims = list(dim) if isinstance(dim, tuple | list) else [dim]
    rank = input.dim()
    valid = all(type(each) is int and -rank <= each < rank for each in dims)
    if rest or others or not valid or not dims:
        return None
    positive = [each % rank for each in dims]
    return positive if len(set(positive)) == len(positive) else None


# TorchScript, and OpenVINO which reads it, have no translation of these.
@rewriters.function("torch.Tensor.mT", check=not_dynamo)
def matrix_transpose(ctx: Context, input: Tensor) -> object:
    """Swap the last two dimensions."""
    return ctx.origin_func(input) if input.dim() < 2 else input.transpose(-2, -1)


@rewriters.function("torch.Tensor.mH", check=not_dynamo)
@rewriters.function("torch.adjoint", check=not_dynamo)
@rewriters.function("torch.Tensor.adjoint", check=not_dynamo)
def adjoint(ctx: Context, input: Tensor) -> object:
    """Swap the last two dimensions; a real matrix needs no conjugation."""
    if input.dim() < 2 or input.is_complex():
        return ctx.origin_func(input)
    return input.transpose(-2, -1)
