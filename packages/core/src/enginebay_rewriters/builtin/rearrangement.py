"""Rewriters of ``roll``, ``repeat_interleave``, ``as_strided``, ``deepcopy`` and ``copy_``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from enginebay_rewriters.builtin.common import not_dynamo, rewriters, torchscript_only

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from enginebay.authors import Context
    from enginebay_rewriters.builtin.common import OnnxGraph

_Numbers: TypeAlias = "int | tuple[int, ...] | list[int]"


# TorchScript requires ``dims``, and shifts that are smaller than the sizes of their dimensions.
@rewriters.function("torch.roll", ir="onnx", check=not_dynamo)
@rewriters.function("torch.Tensor.roll", ir="onnx", check=not_dynamo)
def roll(ctx: Context, input: Tensor, shifts: _Numbers, dims: _Numbers = ()) -> object:
    """Select each element of the result by its index in the input."""
    moves = list(shifts) if isinstance(shifts, tuple | list) else [shifts]
    axes = list(dims) if isinstance(dims, tuple | list) else [dims]
    flat = not axes and len(moves) == 1
    rank = input.dim()
    fits = len(moves) == len(axes) > 0 and all(-rank <= axis < rank for axis in axes)
    if not flat and not fits:
        return ctx.origin_func(input, shifts, dims)
    if flat:
        return _roll_axis(input.reshape(-1), moves[0], 0).reshape(input.shape)
    for move, axis in zip(moves, axes, strict=True):
        input = _roll_axis(input, move, axis)
    return input


def _roll_axis(input: Tensor, move: int, axis: int) -> Tensor:
    import torch

    size = input.shape[axis]
    return input.index_select(axis, (torch.arange(size, device=input.device) - move) % size)


# TorchScript splits the tensor into one part for each element of the dimension, and for some shapes
# an internal check of the exporter fails.
@rewriters.function("torch.repeat_interleave", ir="onnx", check=not_dynamo)
@rewriters.function("torch.Tensor.repeat_interleave", ir="onnx", check=not_dynamo)
def repeat_interleave(
    ctx: Context,
    input: Tensor,
    repeats: int | Tensor | None = None,
    dim: int | None = None,
    **kwargs: object,
) -> object:
    """Insert a dimension after ``dim``, expand it to ``repeats``, and flatten both dimensions."""
    if type(repeats) is not int or kwargs or (repeats < 0 or input.dim() == 0):
        options = () if repeats is None else (repeats, dim)
        return ctx.origin_func(input, *options, **kwargs)
    axis = 0 if dim is None else dim
    values = input.reshape(-1) if dim is None else input
    if not -values.dim() <= axis < values.dim():
        return ctx.origin_func(input, repeats, dim)
    axis %= values.dim()
    sizes = [-1] * (values.dim() + 1)
    sizes[axis + 1] = repeats
    return values.unsqueeze(axis + 1).expand(sizes).flatten(axis, axis + 1)


# TorchScript assumes a contiguous input, whatever its strides are.
@rewriters.function("torch.as_strided", ir="onnx", check=torchscript_only)
@rewriters.function("torch.Tensor.as_strided", ir="onnx", check=torchscript_only)
def as_strided(
    ctx: Context,
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> object:
    """Flatten the input in the order of its memory, and select the elements by index."""
    import torch

    order = sorted(range(input.dim()), key=input.stride, reverse=True)
    start = 0 if storage_offset is None else storage_offset - input.storage_offset()
    reach = sum((int(n) - 1) * step for n, step in zip(size, stride, strict=False))
    in_memory = input.permute(order)
    # Memory outside of the input's elements is not in the graph: such a call is left to torch.
    inside = in_memory.is_contiguous() and 0 <= start <= start + reach < input.numel()
    if len(size) != len(stride) or not inside or min([*stride, 0]) < 0:
        return ctx.origin_func(input, size, stride, storage_offset)
    position = torch.full([1] * len(size), int(start), device=input.device)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        along = [-1 if each == axis else 1 for each in range(len(size))]
        position = position + torch.arange(count, device=input.device).view(along) * step
    return in_memory.reshape(-1)[position]


# copy.deepcopy(x) calls this method. torch.export fails since a fake tensor has no memory, and a
# trace records an empty tensor, which every engine then returns.
@rewriters.function("torch.Tensor.__deepcopy__")
def deepcopy(ctx: Context, input: Tensor, memo: dict[int, object]) -> object:
    """Clone a computed tensor; for a parameter, call torch's own function."""
    if id(input) in memo or input.requires_grad:
        return ctx.origin_func(input, memo)
    copied = memo[id(input)] = input.clone()
    return copied


# copy_ becomes copy before it is exported. TorchScript has no translation of it, and dynamo's does
# not broadcast.
@rewriters.symbolic("copy", is_pytorch=True, ir="onnx")
def copy(
    ctx: Context, g: OnnxGraph, self: torch.Value, src: torch.Value, non_blocking: object = None
) -> torch.Value:
    """Cast ``src`` to the dtype of ``self``, and expand it to the shape of ``self``."""
    from torch.onnx import JitScalarType  # type: ignore[attr-defined]  # not in its __all__

    name = self.type().scalarType()
    # Not CastLike, which needs no dtype but requires opset 15.
    dtype: Any = next(each for each in JitScalarType if each.scalar_name() == name).onnx_type()
    return g.op("Expand", g.op("Cast", src, to_i=int(dtype)), g.op("Shape", self))
