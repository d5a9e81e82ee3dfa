"""Express operators on images, signals and volumes with ncnn's layers.

ncnn has no batch dimension. pnnx treats the first dimension of these operators' inputs as the
batch, in these operators and in the rest of the network. If this dimension is larger than one
(frames of a video, windows of an image), pnnx writes reshapes that ncnn cannot load. So the first
dimension is merged into a dimension that the operator leaves unchanged, and a dimension of size one
is put in front.
"""

# ruff: noqa: D103 - each function writes the operator whose name it carries
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
from enginebay_ncnn.dialect.logic import replace_nonfinite
from enginebay_ncnn.dialect.values import Value, emit_call, is_constant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch._ops import OpOverload


def write_channelwise(operator: OpOverload, operand: Value, *args: object) -> Value:
    """Return the result of an operator that treats all channels alike, such as an upsampling."""
    name = operator._schema.name
    dims = int(name[-2]) if name[-1] == "d" else 2
    front, image = operand.shape[: operand.ndim - dims], operand.shape[operand.ndim - dims :]
    if len(front) == 2 and front[0] == 1:
        return emit_call(lambda t: operator(t, *args), operand)
    wide = reshape(operand, (1, math.prod(front), *image))
    result = emit_call(lambda t: operator(t, *args), wide)
    channels = result.shape[1] // math.prod(front[:-1])
    return reshape(result, (*front[:-1], channels, *result.shape[2:]))


def write_convolution(
    operand: Value,
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
        list(option) * (dims if len(option) == 1 else 1)
        for option in (stride, padding, dilation, output_padding)
    )
    # Through torch.nn.functional, whose trace has the flags that pnnx matches.
    operator: Any = getattr(functional, f"conv{'_transpose' if transposed else ''}{dims}d")
    rest = (output_padding, groups, dilation) if transposed else (dilation, groups)

    def convolve(operand: Value) -> Value:
        return emit_call(
            lambda x, w, b: operator(x, w, b, stride, padding, *rest), operand, weight, bias
        )

    if operand.ndim < weight.ndim:
        result = convolve(reshape(operand, (1, *operand.shape)))
        return reshape(result, result.shape[1:])
    if operand.shape[0] == 1 or not is_constant(weight):
        return convolve(operand)
    if transposed or dims == 3:
        return write_cat(
            [convolve(narrow(operand, 0, index, 1)) for index in range(operand.shape[0])]
        )
    if dims == 1:  # as one image, whose rows are the signals
        rows = reshape(
            write_permute(operand, (1, 0, 2)), (1, *(operand.shape[axis] for axis in (1, 0, 2)))
        )
        kernel = reshape(weight, (*weight.shape[:2], 1, weight.shape[2]))
        options = ((1, *stride), (0, *padding), (1, *dilation), groups)
        result = emit_call(lambda t, k, b: functional.conv2d(t, k, b, *options), rows, kernel, bias)
        result = reshape(result, result.shape[1:])
        return write_permute(result, (1, 0, 2))
    return _convolve_tall_image(operand, weight, bias, stride, padding, dilation, groups)


def _convolve_tall_image(
    operand: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """Return the convolution of several images, by padding and stacking them to one tall image."""
    count, channels, height, width = operand.shape
    reach = dilation[0] * (weight.shape[2] - 1) + 1
    padded = height + 2 * padding[0]
    rows = -(-padded // stride[0])  # rows of the result for each image, with the surplus
    valid = (padded - reach) // stride[0] + 1
    tall = write_permute(reshape(operand, (count, channels, height * width)), (1, 0, 2))
    tall = reshape(tall, (1, channels * count, height, width))
    below = rows * stride[0] - height - padding[0]
    tall = emit_call(lambda t: functional.pad(t, (0, 0, padding[0], below)), tall)
    tall = reshape(tall, (1, channels, count * rows * stride[0], width))
    if reach > stride[0]:
        tall = emit_call(lambda t: functional.pad(t, (0, 0, 0, reach - stride[0])), tall)
    options = (stride, (0, padding[1]), dilation, groups)
    result = emit_call(lambda t, w, b: functional.conv2d(t, w, b, *options), tall, weight, bias)
    outputs, across = result.shape[1], result.shape[3]
    result = narrow(reshape(result, (outputs, count, rows, across)), 2, 0, valid)
    result = write_permute(reshape(result, (outputs, count, valid * across)), (1, 0, 2))
    return reshape(result, (count, outputs, valid, across))


def write_constant_pad_nd(operand: Value, pad: Sequence[int], value: float = 0) -> Value:
    for index in range(len(pad) // 2):  # the pairs start with the last dimension
        dim = operand.ndim - 1 - index
        before, after = pad[2 * index : 2 * index + 2]
        size = operand.shape[dim]
        operand = narrow(operand, dim, max(-before, 0), size - max(-before, 0) - max(-after, 0))
        before, after = max(before, 0), max(after, 0)
        if before or after:
            sizes = operand.shape
            wide = reshape(
                operand, (1, math.prod(sizes[:dim]), sizes[dim], math.prod(sizes[dim + 1 :]))
            )
            sides = (0, 0, before, after)
            wide = emit_call(
                lambda t, sides=sides: functional.pad(t, sides, value=replace_nonfinite(value)),
                wide,
            )
            operand = reshape(wide, (*sizes[:dim], before + sizes[dim] + after, *sizes[dim + 1 :]))
    return operand


def write_grid_sampler(operand: Value, grid: Value, *args: object) -> Value:
    # pnnx matches this operator, which serves both ranks.
    operator: Any = torch.ops.aten.grid_sampler
    pairs = [
        emit_call(
            lambda x, grid: operator(x, grid, *args),
            narrow(operand, 0, index, 1),
            narrow(grid, 0, index, 1),
        )
        for index in range(operand.shape[0])
    ]
    return write_cat(pairs)


#: The writers of this file by the names of their operators.
WRITERS: dict[str, Callable[..., Any]] = {
    "convolution": write_convolution,
    "_convolution": write_convolution,
    "constant_pad_nd": write_constant_pad_nd,
    "grid_sampler": write_grid_sampler,
    "grid_sampler_2d": write_grid_sampler,
    "grid_sampler_3d": write_grid_sampler,
}
