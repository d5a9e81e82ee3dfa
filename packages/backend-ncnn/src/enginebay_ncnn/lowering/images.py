"""Operators on images, signals and volumes, for which ncnn has no batch among its dimensions.

pnnx takes the first dimension of their inputs for the batch, and tells the rest of the network so.
Where it is larger than one, frames of a video or windows of an image mostly, that ends in reshapes
that ncnn cannot load. So the first dimension is one here: what was in it goes where the operator
leaves elements alone.
"""

# ruff: noqa: D103 - each lowering is documented by the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from enginebay_ncnn.lowering.arithmetic import lower_add, lower_mul, lower_sub
from enginebay_ncnn.lowering.layout import (
    axis_of,
    lower_cat,
    lower_permute,
    narrow,
    reshape,
)
from enginebay_ncnn.lowering.logic import finite
from enginebay_ncnn.lowering.registry import is_constant, lowers, sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

#: Operators that treat every channel alike, by how many dimensions an image has.
_CHANNELWISE = {
    "adaptive_avg_pool": (1, 2, 3),
    "adaptive_max_pool": (1, 2, 3),
    "reflection_pad": (1, 2),
    "replication_pad": (1, 2),
    "upsample_nearest": (1, 2),
    "upsample_linear": (1,),
    "upsample_bilinear": (2,),
    "upsample_bicubic": (2,),
}


def _channelwise(name: str, dims: int) -> Callable[..., Any]:
    def lowering(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        operator = getattr(torch.ops.aten, name)
        sizes = sizes_of(x)
        front, image = sizes[: x.ndim - dims], sizes[x.ndim - dims :]
        if len(front) == 2 and front[0] == 1:
            return operator(x, *args, **kwargs)
        results = operator(reshape(x, (1, math.prod(front), *image)), *args, **kwargs)

        def restored(result: Tensor) -> Tensor:
            return reshape(result, (*front, *sizes_of(result)[2:]))

        return tuple(map(restored, results)) if isinstance(results, tuple) else restored(results)

    return lowering


for _name, _dims in _CHANNELWISE.items():
    for _count in _dims:
        lowers(f"{_name}{_count}d")(_channelwise(f"{_name}{_count}d", _count))


@lowers("_convolution")
def lower_convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *flags: bool,
) -> Tensor:
    def plain(x: Tensor) -> Tensor:
        operator: Any = torch.ops.aten._convolution
        if transposed:
            lists = (stride, padding, dilation, True, output_padding)
            result: Tensor = operator(x, weight, bias, *lists, groups, *flags)
        else:  # traced with the flags that pnnx looks for
            operator = getattr(functional, f"conv{dims}d")
            result = operator(x, weight, bias, stride, padding, dilation, groups)
        return result

    dims = weight.ndim - 2
    stride, padding, dilation = (
        list(each) * (dims if len(each) == 1 else 1) for each in (stride, padding, dilation)
    )
    if x.ndim < weight.ndim:
        result = plain(reshape(x, (1, *sizes_of(x))))
        return reshape(result, sizes_of(result)[1:])
    if sizes_of(x)[0] == 1 or not is_constant(weight):
        return plain(x)
    if transposed or dims == 3:
        return lower_cat([plain(narrow(x, 0, place, 1)) for place in range(sizes_of(x)[0])])
    if dims == 1:
        rows = reshape(lower_permute(x, (1, 0, 2)), (1, *(sizes_of(x)[axis] for axis in (1, 0, 2))))
        kernel = weight.reshape(*weight.shape[:2], 1, weight.shape[2])
        result = functional.conv2d(
            rows, kernel, bias, (1, *stride), (0, *padding), (1, *dilation), groups
        )
        result = reshape(result, sizes_of(result)[1:])
        return lower_permute(result, (1, 0, 2))
    return _stacked(x, weight, bias, stride, padding, dilation, groups)


def _stacked(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Images one below the other, each with its padding, as one tall image."""
    count, channels, height, width = sizes_of(x)
    reach = dilation[0] * (sizes_of(weight)[2] - 1) + 1
    padded = height + 2 * padding[0]
    rows = -(-padded // stride[0])  # of the result, for each image
    wanted = (padded - reach) // stride[0] + 1
    tall = lower_permute(reshape(x, (count, channels, height * width)), (1, 0, 2))
    tall = reshape(tall, (1, channels * count, height, width))
    below = rows * stride[0] - height - padding[0]
    tall = functional.pad(tall, (0, 0, padding[0], below))
    tall = reshape(tall, (1, channels, count * rows * stride[0], width))
    if reach > stride[0]:
        tall = functional.pad(tall, (0, 0, 0, reach - stride[0]))
    result = functional.conv2d(tall, weight, bias, stride, (0, padding[1]), dilation, groups)
    outputs, across = sizes_of(result)[1], sizes_of(result)[3]
    result = narrow(reshape(result, (outputs, count, rows, across)), 2, 0, wanted)
    result = lower_permute(reshape(result, (outputs, count, wanted * across)), (1, 0, 2))
    return reshape(result, (count, outputs, wanted, across))


@lowers("conv1d", "conv2d", "conv3d")
def lower_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Tensor:
    flags = (False, False, False, False)
    return lower_convolution(x, weight, bias, stride, padding, dilation, False, [0], groups, *flags)


@lowers("_convolution_mode", "conv1d.padding", "conv2d.padding", "conv3d.padding")
def lower_convolution_mode(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: str,
    dilation: Sequence[int],
    groups: int = 1,
) -> Tensor:
    dims = weight.ndim - 2
    sides = [0] * (2 * dims)
    if padding == "same":  # stride one; the smaller half in front
        dilation = list(dilation) * (dims if len(dilation) == 1 else 1)
        total = [d * (k - 1) for d, k in zip(dilation, sizes_of(weight)[2:], strict=True)]
        sides = [n for both in reversed(total) for n in (both // 2, both - both // 2)]
    return lower_conv(lower_pad(x, sides), weight, bias, stride, [0] * dims, dilation, groups)


@lowers("constant_pad_nd")
def lower_pad(x: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    for place in range(len(pad) // 2):
        dim = x.ndim - 1 - place
        before, after = pad[2 * place : 2 * place + 2]
        size = sizes_of(x)[dim]
        x = narrow(x, dim, max(-before, 0), size - max(-before, 0) - max(-after, 0))
        before, after = max(before, 0), max(after, 0)
        if before or after:
            sizes = sizes_of(x)
            wide = reshape(x, (1, math.prod(sizes[:dim]), sizes[dim], math.prod(sizes[dim + 1 :])))
            wide = functional.pad(wide, (0, 0, before, after), value=finite(value))
            x = reshape(wide, (*sizes[:dim], before + sizes[dim] + after, *sizes[dim + 1 :]))
    return x


@lowers("pad")
def lower_any_pad(
    x: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    if mode == "constant":
        return lower_pad(x, pad, value or 0)
    for place in range(len(pad) // 2):
        before, after = pad[2 * place : 2 * place + 2]
        dim = x.ndim - 1 - place
        x = lower_cat([*_edge(x, dim, mode, before, after)], dim)
    return x


def _edge(x: Tensor, dim: int, mode: str, before: int, after: int) -> list[Tensor]:
    """A dimension with what is repeated, reflected or wrapped around it."""
    size = sizes_of(x)[dim]
    if mode == "circular":
        front, back = [*range(size - before, size)], [*range(after)]
    elif mode == "reflect":
        front, back = [*range(before, 0, -1)], [*range(size - 2, size - 2 - after, -1)]
    else:
        front, back = [0] * before, [size - 1] * after
    return [
        *(narrow(x, dim, place, 1) for place in front),
        x,
        *(narrow(x, dim, place, 1) for place in back),
    ]


@lowers("batch_norm")
def lower_batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    training: bool,
    momentum: float,
    eps: float,
    *flags: bool,
) -> Tensor:
    if x.ndim > 2 and sizes_of(x)[0] == 1:  # pnnx folds it into a convolution
        result: Tensor = torch.ops.aten.batch_norm(
            x, weight, bias, mean, variance, training, momentum, eps, *flags
        )
        return result
    scale = (variance + eps).rsqrt() * (1.0 if weight is None else weight)
    shift = (0.0 if bias is None else bias) - mean * scale
    return _affine(x, scale, shift)


def _affine(x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    """A factor and a summand for each channel."""
    shape = (-1, *[1] * (x.ndim - 2))
    x = x if scale is None else lower_mul(x, scale.reshape(shape))
    return x if shift is None else lower_add(x, shift.reshape(shape))


@lowers("group_norm")
def lower_group_norm(
    x: Tensor,
    groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Tensor:
    sizes = sizes_of(x)
    if sizes[0] == 1 and x.ndim > 2:
        return functional.group_norm(x, groups, weight, bias, eps)
    rows = reshape(x, (1, sizes[0] * groups, math.prod(sizes[1:]) // groups))
    rows = functional.layer_norm(rows, sizes_of(rows)[2:], None, None, eps)
    return _affine(reshape(rows, sizes), weight, bias)


@lowers("instance_norm")
def lower_instance_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    *_: bool,
) -> Tensor:
    if not use_input_stats:
        assert mean is not None
        assert variance is not None
        return lower_batch_norm(x, weight, bias, mean, variance, False, momentum, eps)
    if sizes_of(x)[0] == 1 and x.ndim == 4:
        return functional.instance_norm(x, None, None, weight, bias, True, momentum, eps)
    return lower_group_norm(x, sizes_of(x)[1], weight, bias, eps)


@lowers("prelu")
def lower_prelu(x: Tensor, weight: Tensor) -> Tensor:
    if sizes_of(x)[0] == 1 and x.ndim > 2:
        return functional.prelu(x, weight)
    if x.ndim > 1:
        weight = weight.reshape(-1, *[1] * (x.ndim - 2))
    return lower_sub(functional.relu(x), lower_mul(functional.relu(-x), weight))


@lowers("pixel_shuffle")
def lower_pixel_shuffle(x: Tensor, factor: int) -> Tensor:
    if x.ndim == 4 and sizes_of(x)[0] == 1:
        return functional.pixel_shuffle(x, factor)
    *front, channels, height, width = sizes_of(x)
    count = channels // factor**2
    parts = reshape(x, (math.prod(front) * count, factor, factor, height, width))
    parts = lower_permute(parts, (0, 3, 1, 4, 2))
    return reshape(parts, (*front, count, height * factor, width * factor))


@lowers("pixel_unshuffle")
def lower_pixel_unshuffle(x: Tensor, factor: int) -> Tensor:
    if x.ndim == 4 and sizes_of(x)[0] == 1:
        return functional.pixel_unshuffle(x, factor)
    *front, channels, height, width = sizes_of(x)
    rows, columns = height // factor, width // factor
    parts = reshape(x, (math.prod(front) * channels, rows, factor, columns, factor))
    parts = lower_permute(parts, (0, 2, 4, 1, 3))
    return reshape(parts, (*front, channels * factor**2, rows, columns))


@lowers("glu")
def lower_glu(x: Tensor, dim: int = -1) -> Tensor:
    dim = axis_of(x, dim)
    half = sizes_of(x)[dim] // 2
    return lower_mul(narrow(x, dim, 0, half), narrow(x, dim, half, half).sigmoid())


@lowers("grid_sampler")
def lower_grid_sampler(x: Tensor, grid: Tensor, *args: Any) -> Tensor:
    operator: Any = torch.ops.aten.grid_sampler
    pairs = [
        operator(narrow(x, 0, place, 1), narrow(grid, 0, place, 1), *args)
        for place in range(sizes_of(x)[0])
    ]
    return lower_cat(pairs)
