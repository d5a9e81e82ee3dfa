"""Dimensions: ``permute``, ``unfold``, ``squeeze`` and the transposes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.common import is_tracing, not_dynamo, rewriters

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.rewriter import Context


# TorchScript writes negative dimensions into Transpose, which no engine loads.
@rewriters.function("torch.permute", ir="onnx", check=not_dynamo)
@rewriters.function("torch.Tensor.permute", ir="onnx", check=not_dynamo)
def permute(ctx: Context, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Count every dimension from the front."""
    given = kwargs.get("dims", args[0] if len(args) == 1 else args)
    dims = list(given) if isinstance(given, tuple | list) else [given]
    rank = input.dim()
    if len(args) + len(kwargs) == 0 or any(dim < -rank for dim in dims):
        return ctx.origin_func(input, *args, **kwargs)
    return ctx.origin_func(input, [dim + rank if dim < 0 else dim for dim in dims])


# TorchScript gives a negative dimension wrong windows.
@rewriters.function("torch.Tensor.unfold", ir="onnx", check=not_dynamo)
def unfold(ctx: Context, input: Tensor, dimension: int, size: int, step: int) -> Any:
    """Count the dimension from the front."""
    rank = input.dim()
    front = dimension % rank if -rank <= dimension < rank else dimension
    return ctx.origin_func(input, front, size, step)


# dynamo removes a dimension that is not 1, and the engine refuses the file. TorchScript accepts one
# dimension only.
@rewriters.function("torch.squeeze", ir="onnx")
@rewriters.function("torch.Tensor.squeeze", ir="onnx")
def squeeze(ctx: Context, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Remove one dimension after the other, from the last."""
    dims = _front_dims(input, *args, **kwargs)
    # TorchScript checks the size in the graph, and each look at a size here would be a node.
    tracing = is_tracing()
    if dims is None or (tracing and len(dims) == 1):
        return ctx.origin_func(input, *args, **kwargs)
    for dim in sorted(dims, reverse=True):
        if tracing or input.shape[dim] == 1:
            input = ctx.origin_func(input, dim)
    return input


def _front_dims(input: Tensor, dim: Any = None, *rest: Any, **others: Any) -> list[int] | None:
    """Return the dimensions counted from the front; None for a call that only torch can judge."""
    dims = list(dim) if isinstance(dim, tuple | list) else [dim]
    rank = input.dim()
    valid = all(type(each) is int and -rank <= each < rank for each in dims)
    if rest or others or not valid or not dims:
        return None
    front = [each % rank for each in dims]
    return front if len(set(front)) == len(front) else None


# TorchScript and OpenVINO, which reads it, have no translation of any of these.
@rewriters.function("torch.Tensor.mT", check=not_dynamo)
def matrix_transpose(ctx: Context, input: Tensor) -> Any:
    """Exchange the last two dimensions."""
    return ctx.origin_func(input) if input.dim() < 2 else input.transpose(-2, -1)


@rewriters.function("torch.Tensor.mH", check=not_dynamo)
@rewriters.function("torch.adjoint", check=not_dynamo)
@rewriters.function("torch.Tensor.adjoint", check=not_dynamo)
def adjoint(ctx: Context, input: Tensor) -> Any:
    """Exchange the last two dimensions: real numbers are their own conjugates."""
    if input.dim() < 2 or input.is_complex():
        return ctx.origin_func(input)
    return input.transpose(-2, -1)
