"""Rewriters for what OpenVINO does not support, or computes in another way.

With ``ceil_mode`` torch and ONNX accept a pooling window larger than the input, which OpenVINO
2026.4 refuses. Some models write global pooling that way. On the CPU it computes powers, quotients
and remainders of integers in float32, which holds them up to 2**24; sums and products are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import Context

rewriters = eb.RewriterSet(backend="openvino")


@rewriters.function("torch.nn.functional.avg_pool1d")
@rewriters.function("torch.nn.functional.avg_pool2d")
def avg_pool(
    ctx: Context,
    input: Tensor,  # noqa: A002  # torch's name
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Average over windows that are no larger than the padded input."""
    if divisor_override:
        return _divided(input, kernel_size, stride, padding, ceil_mode, divisor_override)
    if ceil_mode:
        stride, kernel_size = stride or kernel_size, _within(input, kernel_size, padding)
    more = (padding, ceil_mode, count_include_pad)
    return ctx.origin_func(input, kernel_size, stride or kernel_size, *more)


@rewriters.function("torch.max_pool1d")
@rewriters.function("torch.max_pool2d")
def max_pool(
    ctx: Context,
    input: Tensor,  # noqa: A002  # torch's name
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """Take the maximum of windows that are no larger than the padded input."""
    stride = stride or kernel_size
    if ceil_mode and set(_each(dilation, 1)) == {1}:
        kernel_size = _within(input, kernel_size, padding)
    return ctx.origin_func(input, kernel_size, stride, padding, dilation, ceil_mode)


@rewriters.function("torch.floor_divide")
@rewriters.function("torch.Tensor.floor_divide")
@rewriters.function("torch.div")
@rewriters.function("torch.Tensor.div")
def divide(ctx: Context, input: Any, other: Any, **more: Any) -> Any:  # noqa: A002  # torch's name
    """Divide integers exactly, where the quotient is an integer."""
    rounding = more.get("rounding_mode")
    is_floor = rounding == "floor" or ctx.origin_func.__name__ == "floor_divide"
    if not (is_floor or rounding) or not _are_integers(input, other):
        return ctx.origin_func(input, other, **more)
    return _floor(input, other) if is_floor else _trunc(input, other)


@rewriters.function("torch.remainder")
@rewriters.function("torch.Tensor.remainder")
@rewriters.function("torch.fmod")
@rewriters.function("torch.Tensor.fmod")
def remainder(ctx: Context, input: Any, other: Any) -> Any:  # noqa: A002  # torch's name
    """Subtract the multiple of the divisor, where both are integers."""
    if not _are_integers(input, other):
        return ctx.origin_func(input, other)
    quotient = _trunc if ctx.origin_func.__name__ == "fmod" else _floor
    return input - quotient(input, other) * other


@rewriters.function("torch.bitwise_right_shift")
@rewriters.function("torch.Tensor.bitwise_right_shift")
@rewriters.function("torch.Tensor.__rshift__")
def right_shift(ctx: Context, input: Any, other: Any) -> Any:  # noqa: A002  # torch's name
    """Divide integers by a power of two: OpenVINO shifts zeros into negative ones."""
    if not isinstance(other, int) or not _are_integers(input):
        return ctx.origin_func(input, other)
    return _floor(input, 1 << other)


@rewriters.function("torch.pow")
@rewriters.function("torch.Tensor.pow")
@rewriters.function("torch.Tensor.__pow__")
def power(ctx: Context, input: Any, exponent: Any) -> Any:  # noqa: A002  # torch's name
    """Multiply integers with themselves, where the exponent is a number."""
    if not isinstance(exponent, int) or not 1 < exponent < 64 or not _are_integers(input):
        return ctx.origin_func(input, exponent)
    half = power(ctx, input, exponent // 2) if exponent > 3 else input
    return half * half * input if exponent % 2 else half * half


def _floor(x: Any, divisor: Any) -> Any:
    """Return the quotient: float32 may be off by one and more, and what is left says how much."""
    import torch

    quotient = torch.div(x, divisor, rounding_mode="floor")
    return quotient + torch.div(x - quotient * divisor, divisor, rounding_mode="floor")


def _trunc(x: Any, divisor: Any) -> Any:
    quotient = _floor(x, divisor)
    return quotient + ((quotient < 0) & (quotient * divisor != x)).to(quotient.dtype)


def _are_integers(x: Any, *others: Any) -> bool:
    """Return True for a tensor of integers beside others and numbers that are integers.

    False for one without dimensions, which a size is while TorchScript traces: none is that large.
    """
    import torch

    def is_integer(value: Any) -> bool:
        if not isinstance(value, torch.Tensor):
            return isinstance(value, int)
        return not (value.is_floating_point() or value.is_complex() or value.dtype is torch.bool)

    return isinstance(x, torch.Tensor) and x.dim() > 0 and all(map(is_integer, (x, *others)))


def _divided(
    input: Tensor,  # noqa: A002  # torch's name
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    divisor: int,
) -> Tensor:
    """Average in three dimensions, for which Enginebay's own rewriter supports a divisor."""
    from torch.nn import functional

    kernel, pads = ([n, *_each(value, 2)] for n, value in ((1, kernel_size), (0, padding)))
    strides = [1, *_each(stride, 2)] if stride else kernel
    more = (kernel, strides, pads, ceil_mode, True, divisor)
    return functional.avg_pool3d(input.unsqueeze(-3), *more).squeeze(-3)


def _within(input: Tensor, kernel_size: Any, padding: Any) -> Any:  # noqa: A002  # torch's name
    """Limit the window to the padded input; a dynamic size counts as large enough."""
    import torch

    kernel = _each(kernel_size, 1)
    if len(kernel) == 1 and input.dim() == 4:
        kernel *= 2
    sizes = input.shape[-len(kernel) :]
    if any(isinstance(size, torch.SymInt) for size in sizes):
        return kernel_size
    pads = _each(padding, len(kernel))
    return [min(k, int(n) + 2 * p) for k, n, p in zip(kernel, sizes, pads, strict=True)]


def _each(value: Any, times: int) -> list[int]:
    """Return one number for each dimension."""
    values = list(value) if isinstance(value, tuple | list) else [value]
    return values if len(values) > 1 else values * times
