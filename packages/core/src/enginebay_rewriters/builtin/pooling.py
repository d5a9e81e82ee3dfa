"""Rewriters of ``adaptive_avg_pool1d``, ``adaptive_avg_pool2d``, ``avg_pool2d``, ``avg_pool3d``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

from enginebay_rewriters.builtin.common import not_dynamo, rewriters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from enginebay.authors import Context

_Sizes: TypeAlias = "int | tuple[int, ...] | list[int]"


# TorchScript requires fixed sizes that are multiples of the output sizes.
@rewriters.function("torch.nn.functional.adaptive_avg_pool2d", ir="onnx", check=not_dynamo)
def adaptive_avg_pool2d(
    ctx: Context, input: Tensor, output_size: int | Sequence[int | None]
) -> object:
    """Pool the height and then the width, each by a product with a matrix of averaging weights."""
    sizes = output_size if isinstance(output_size, tuple | list) else (output_size, output_size)
    if not _is_supported(input, 2, sizes):
        return ctx.origin_func(input, output_size)
    for axis, size in zip((-2, -1), sizes, strict=True):
        if size is not None:
            input = _apply_weights(input, axis, size)
    return input


@rewriters.function("torch.nn.functional.adaptive_avg_pool1d", ir="onnx", check=not_dynamo)
def adaptive_avg_pool1d(
    ctx: Context, input: Tensor, output_size: int | Sequence[int | None]
) -> object:
    """Pool by a product with a matrix of averaging weights."""
    sizes = output_size if isinstance(output_size, tuple | list) else (output_size,)
    if not _is_supported(input, 1, sizes):
        return ctx.origin_func(input, output_size)
    return _apply_weights(input, -1, sizes[0])


def _is_supported(input: Tensor, axes: int, sizes: Sequence[int | None]) -> bool:
    """Return True if the rewriter supports the call, and the exporter possibly does not."""
    are_numbers = all(size is None or (type(size) is int and size > 0) for size in sizes)
    return (
        len(sizes) == axes
        and are_numbers
        and set(sizes) != {1}  # a global mean, which the exporter supports
        and input.is_floating_point()
        and input.dim() in (axes + 1, axes + 2)
    )


def _apply_weights(input: Tensor, axis: int, size: int) -> Tensor:
    weights = _window_weights(input, axis, size)
    return weights @ input if axis == -2 else input @ weights.T


def _window_weights(input: Tensor, axis: int, size: int) -> Tensor:
    """Return a size×n matrix: row i averages the elements ⌊i·n/size⌋ to ⌈(i+1)·n/size⌉ − 1."""
    import torch

    # Computed in the graph, so that a dynamic size stays dynamic.
    length = input.shape[axis]
    outputs = torch.arange(size, device=input.device)[:, None]
    inputs = torch.arange(length, device=input.device)
    start = outputs * length // size
    end = ((outputs + 1) * length + size - 1) // size
    inside = (inputs >= start) & (inputs < end)
    return inside.to(input.dtype) / (end - start).to(input.dtype)


# Both ONNX exporters ignore divisor_override, and OpenVINO refuses it in TorchScript: for all IRs.
@rewriters.function("torch.nn.functional.avg_pool2d")
def avg_pool2d(ctx: Context, input: Tensor, *args: Any, **kwargs: Any) -> object:
    """Multiply each pooling window's average by the window size / ``divisor_override``."""
    return _with_divisor(ctx, 2, input, *args, **kwargs)


@rewriters.function("torch.nn.functional.avg_pool3d")
def avg_pool3d(ctx: Context, input: Tensor, *args: Any, **kwargs: Any) -> object:
    """Multiply each pooling window's average by the window size / ``divisor_override``."""
    return _with_divisor(ctx, 3, input, *args, **kwargs)


def _with_divisor(
    ctx: Context,
    dims: int,
    input: Tensor,
    kernel_size: _Sizes,
    stride: _Sizes | None = None,
    padding: _Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> object:
    from torch.nn import functional

    if not divisor_override:
        return ctx.origin_func(
            input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )
    kernel, pads = _expand_sizes(kernel_size, dims), _expand_sizes(padding, dims)
    steps = _expand_sizes(stride, dims) if stride else kernel
    if ceil_mode:
        # Pad zeros to the end of the last window, which must start before the right padding.
        backwards = reversed(list(zip(kernel, steps, pads, strict=True)))
        edges = [n for k, s, p in backwards for n in (p, min(p + s - 1, k - 1))]
        input, padding = functional.pad(input, edges), 0
    average = ctx.origin_func(input, kernel_size, stride, padding, False, True)
    return average * (math.prod(kernel) / divisor_override)


def _expand_sizes(value: _Sizes, dims: int) -> list[int]:
    values = list(value) if isinstance(value, tuple | list) else [value]
    return values if len(values) == dims else values * dims
