"""Rewriters for operators that OpenVINO does not support, or computes differently."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import enginebay as eb

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import Context

_Sizes: TypeAlias = "int | tuple[int, ...] | list[int]"

rewriters = eb.RewriterSet(backend="openvino")


# With ceil_mode torch and ONNX accept a pooling window larger than the input, which OpenVINO 2026.4
# rejects. Some models write global pooling that way.
@rewriters.function("torch.nn.functional.avg_pool1d")
@rewriters.function("torch.nn.functional.avg_pool2d")
@rewriters.function("torch.nn.functional.avg_pool3d")
def avg_pool(
    ctx: Context,
    input: Tensor,  # noqa: A002  # torch's name
    kernel_size: _Sizes,
    stride: _Sizes | None = None,
    padding: _Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> object:
    """Compute average pooling with windows no larger than the padded input, and any divisor."""
    stride = stride or kernel_size
    dims = int(ctx.origin_func.__name__[-2])
    if divisor_override:
        kernel, steps, pads = (_expand_numbers(n, dims) for n in (kernel_size, stride, padding))
        sums = _average_padded(ctx, input, kernel, steps, pads, ceil_mode)
        return sums * (math.prod(kernel) / divisor_override)
    if ceil_mode:
        kernel_size = _limit_window(input, kernel_size, padding, dims)
    return ctx.origin_func(input, kernel_size, stride, padding, ceil_mode, count_include_pad)


@rewriters.function("torch.max_pool1d")
@rewriters.function("torch.max_pool2d")
def max_pool(
    ctx: Context,
    input: Tensor,  # noqa: A002  # torch's name
    kernel_size: _Sizes,
    stride: _Sizes | None = None,
    padding: _Sizes = 0,
    dilation: _Sizes = 1,
    ceil_mode: bool = False,
) -> object:
    """Compute maximum pooling with windows that are no larger than the padded input."""
    stride = stride or kernel_size
    # A dilated window spans more pixels than kernel_size: it cannot be compared with the input.
    if ceil_mode and set(_expand_numbers(dilation, 1)) == {1}:
        dims = int(ctx.origin_func.__name__[-2])
        kernel_size = _limit_window(input, kernel_size, padding, dims)
    return ctx.origin_func(input, kernel_size, stride, padding, dilation, ceil_mode)


# The CPU plugin computes quotients of integers in float32, which is exact only up to 2**24. The
# network's own quotients are repaired there, but torch rounds them down, too.
@rewriters.function("torch.floor_divide")
@rewriters.function("torch.Tensor.floor_divide")
@rewriters.function("torch.div")
@rewriters.function("torch.Tensor.div")
def divide(
    ctx: Context,
    input: Tensor | float,  # noqa: A002  # torch's name
    other: Tensor | float,
    **more: object,
) -> object:
    """Divide integers exactly if ``rounding_mode`` rounds the quotients to integers."""
    rounding = more.get("rounding_mode")
    is_floor = rounding == "floor" or ctx.origin_func.__name__ == "floor_divide"
    if not (is_floor or rounding) or not _are_integers(input, other):
        return ctx.origin_func(input, other, **more)
    return _floor_divide(input, other) if is_floor else _trunc_divide(input, other)


# OpenVINO shifts zeros into negative integers.
@rewriters.function("torch.bitwise_right_shift")
@rewriters.function("torch.Tensor.bitwise_right_shift")
@rewriters.function("torch.Tensor.__rshift__")
def right_shift(ctx: Context, input: Tensor | float, other: Tensor | int) -> object:  # noqa: A002  # torch's name
    """Compute an arithmetic right shift of integers as a division by a power of two."""
    if not isinstance(other, int) or not _are_integers(input):
        return ctx.origin_func(input, other)
    return _floor_divide(input, 1 << other)


def _floor_divide(x: Tensor, divisor: Tensor | float) -> Tensor:
    import torch

    # OpenVINO computes this quotient in float32; the remainder corrects its error of 1 or more.
    quotient = torch.div(x, divisor, rounding_mode="floor")
    return quotient + torch.div(x - quotient * divisor, divisor, rounding_mode="floor")


def _trunc_divide(x: Tensor, divisor: Tensor | float) -> Tensor:
    quotient = _floor_divide(x, divisor)
    # Towards 0: the floor of a negative quotient that is not whole is 1 too small.
    # OpenVINO compares in float32, where two numbers may be equal, but no difference becomes 0.
    return quotient + ((quotient < 0) & (x - quotient * divisor != 0)).to(quotient.dtype)


def _are_integers(x: object, *others: object) -> TypeGuard[Tensor]:
    """Return True if ``x`` is an integer tensor and no scalar, and ``others`` are integers too.

    Each of ``others`` is a Python integer or an integer tensor.
    """
    import torch

    def is_integer(value: object) -> bool:
        if not isinstance(value, torch.Tensor):
            return isinstance(value, int)
        return not (value.is_floating_point() or value.is_complex() or value.dtype is torch.bool)

    # In a TorchScript trace sizes are scalar tensors, which are never large enough for an error.
    return isinstance(x, torch.Tensor) and x.dim() > 0 and all(map(is_integer, (x, *others)))


def _average_padded(
    ctx: Context, x: Tensor, kernel: list[int], steps: list[int], pads: list[int], ceil_mode: bool
) -> Tensor:
    """Pool after padding with zeros up to the end of the last window."""
    from torch.nn import functional

    edges = [n for pad in reversed(pads) for n in (pad, pad)]
    # The last window must start before the padding on the right.
    ends = [
        min(p + s - 1, k - 1) - p if ceil_mode else 0
        for k, s, p in zip(kernel, steps, pads, strict=True)
    ]
    beyond = [n for end in reversed(ends) for n in (0, end)]
    padded = functional.pad(functional.pad(x, edges), beyond)
    pooled: Tensor = ctx.origin_func(padded, kernel, steps)
    return pooled


def _limit_window(
    input: Tensor,  # noqa: A002  # torch's name
    kernel_size: _Sizes,
    padding: _Sizes,
    dims: int,
) -> _Sizes:
    """Return the size of the pooling window, limited to the size of the padded input.

    If the input's height or width is dynamic, return ``kernel_size`` unchanged.
    """
    import torch

    sizes = input.shape[-dims:]
    if any(isinstance(size, torch.SymInt) for size in sizes):
        return kernel_size
    kernel, pads = (_expand_numbers(value, dims) for value in (kernel_size, padding))
    return [min(k, int(n) + 2 * p) for k, n, p in zip(kernel, sizes, pads, strict=True)]


def _expand_numbers(value: _Sizes, times: int) -> list[int]:
    values = list(value) if isinstance(value, tuple | list) else [value]
    return values if len(values) > 1 else values * times
