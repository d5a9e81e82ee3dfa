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

from enginebay_ncnn.dialect.layout import (
    narrow,
    reshape,
    write_cat,
    write_permute,
)
from enginebay_ncnn.dialect.logic import finite
from enginebay_ncnn.dialect.values import Value, emit, is_constant

if TYPE_CHECKING:
    from collections.abc import Sequence


def write_channelwise(operator: Any, x: Value, *args: Any) -> Value:
    """Write an operator that treats every channel alike, such as ``upsample_nearest2d.vec``."""
    name = operator._schema.name
    dims = int(name[-2]) if name[-1] == "d" else 2
    front, image = x.shape[: x.ndim - dims], x.shape[x.ndim - dims :]
    if len(front) == 2 and front[0] == 1:
        return emit(lambda t: operator(t, *args), x)
    wide = reshape(x, (1, math.prod(front), *image))
    found = emit(lambda t: operator(t, *args), wide)
    channels = found.shape[1] // math.prod(front[:-1])
    return reshape(found, (*front[:-1], channels, *found.shape[2:]))


def write_convolution(
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *_: bool,
) -> Value:
    dims = weight.ndim - 2
    stride, padding, dilation, output_padding = (
        list(each) * (dims if len(each) == 1 else 1)
        for each in (stride, padding, dilation, output_padding)
    )
    # Through functional: traced with the flags that pnnx looks for.
    operator: Any = getattr(functional, f"conv{'_transpose' if transposed else ''}{dims}d")
    rest = (output_padding, groups, dilation) if transposed else (dilation, groups)

    def plain(x: Value) -> Value:
        return emit(lambda x, w, b: operator(x, w, b, stride, padding, *rest), x, weight, bias)

    if x.ndim < weight.ndim:
        result = plain(reshape(x, (1, *x.shape)))
        return reshape(result, result.shape[1:])
    if x.shape[0] == 1 or not is_constant(weight):
        return plain(x)
    if transposed or dims == 3:
        return write_cat([plain(narrow(x, 0, place, 1)) for place in range(x.shape[0])])
    if dims == 1:
        rows = reshape(write_permute(x, (1, 0, 2)), (1, *(x.shape[axis] for axis in (1, 0, 2))))
        kernel = reshape(weight, (*weight.shape[:2], 1, weight.shape[2]))
        options = ((1, *stride), (0, *padding), (1, *dilation), groups)
        result = emit(lambda t, k, b: functional.conv2d(t, k, b, *options), rows, kernel, bias)
        result = reshape(result, result.shape[1:])
        return write_permute(result, (1, 0, 2))
    return _stacked(x, weight, bias, stride, padding, dilation, groups)


def _stacked(
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """Images one below the other, each with its padding, as one tall image."""
    count, channels, height, width = x.shape
    reach = dilation[0] * (weight.shape[2] - 1) + 1
    padded = height + 2 * padding[0]
    rows = -(-padded // stride[0])  # of the result, for each image
    wanted = (padded - reach) // stride[0] + 1
    tall = write_permute(reshape(x, (count, channels, height * width)), (1, 0, 2))
    tall = reshape(tall, (1, channels * count, height, width))
    below = rows * stride[0] - height - padding[0]
    tall = emit(lambda t: functional.pad(t, (0, 0, padding[0], below)), tall)
    tall = reshape(tall, (1, channels, count * rows * stride[0], width))
    if reach > stride[0]:
        tall = emit(lambda t: functional.pad(t, (0, 0, 0, reach - stride[0])), tall)
    options = (stride, (0, padding[1]), dilation, groups)
    result = emit(lambda t, w, b: functional.conv2d(t, w, b, *options), tall, weight, bias)
    outputs, across = result.shape[1], result.shape[3]
    result = narrow(reshape(result, (outputs, count, rows, across)), 2, 0, wanted)
    result = write_permute(reshape(result, (outputs, count, wanted * across)), (1, 0, 2))
    return reshape(result, (count, outputs, wanted, across))


def write_constant_pad_nd(x: Value, pad: Sequence[int], value: float = 0) -> Value:
    for place in range(len(pad) // 2):
        dim = x.ndim - 1 - place
        before, after = pad[2 * place : 2 * place + 2]
        size = x.shape[dim]
        x = narrow(x, dim, max(-before, 0), size - max(-before, 0) - max(-after, 0))
        before, after = max(before, 0), max(after, 0)
        if before or after:
            sizes = x.shape
            wide = reshape(x, (1, math.prod(sizes[:dim]), sizes[dim], math.prod(sizes[dim + 1 :])))
            sides = (0, 0, before, after)
            wide = emit(lambda t, sides=sides: functional.pad(t, sides, value=finite(value)), wide)
            x = reshape(wide, (*sizes[:dim], before + sizes[dim] + after, *sizes[dim + 1 :]))
    return x


def write_grid_sampler(x: Value, grid: Value, *args: Any) -> Value:
    # pnnx knows the operator that stands for both ranks.
    operator: Any = torch.ops.aten.grid_sampler
    pairs = [
        emit(
            lambda x, grid: operator(x, grid, *args),
            narrow(x, 0, place, 1),
            narrow(grid, 0, place, 1),
        )
        for place in range(x.shape[0])
    ]
    return write_cat(pairs)


write_grid_sampler_2d = write_grid_sampler_3d = write_grid_sampler
