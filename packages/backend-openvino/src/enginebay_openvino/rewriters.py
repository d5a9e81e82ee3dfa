"""Rewriters for operators that OpenVINO does not support, or computes differently.

With ``ceil_mode`` torch and ONNX accept a pooling window larger than the input, which OpenVINO
2026.4 rejects. Some models write global pooling that way. The CPU plugin computes powers, quotients
and remainders of integers in float32, which is exact only up to 2**24; sums and products are exact.
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
    """Limit the windows to the size of the padded input."""
    if divisor_override:
        return _average_with_divisor(
            input, kernel_size, stride, padding, ceil_mode, divisor_override
        )
    if ceil_mode:
        stride, kernel_size = stride or kernel_size, _limit_window(input, kernel_size, padding)
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
    """Limit the windows to the size of the padded input."""
    stride = stride or kernel_size
    if ceil_mode and set(_expand_numbers(dilation, 1)) == {1}:
        kernel_size = _limit_window(input, kernel_size, padding)
    return ctx.origin_func(input, kernel_size, stride, padding, dilation, ceil_mode)


@rewriters.function("torch.floor_divide")
@rewriters.function("torch.Tensor.floor_divide")
@rewriters.function("torch.div")
@rewriters.function("torch.Tensor.div")
def divide(ctx: Context, input: Any, other: Any, **more: Any) -> Any:  # noqa: A002  # torch's name
    """Divide integers exactly, if the result is rounded to integers."""
    rounding = more.get("rounding_mode")
    is_floor = rounding == "floor" or ctx.origin_func.__name__ == "floor_divide"
    if not (is_floor or rounding) or not _are_integers(input, other):
        return ctx.origin_func(input, other, **more)
    return _floor_divide(input, other) if is_floor else _trunc_divide(input, other)


@rewriters.function("torch.remainder")
@rewriters.function("torch.Tensor.remainder")
@rewriters.function("torch.fmod")
@rewriters.function("torch.Tensor.fmod")
def remainder(ctx: Context, input: Any, other: Any) -> Any:  # noqa: A002  # torch's name
    """Subtract the multiple of the divisor, if both are integers."""
    if not _are_integers(input, other):
        return ctx.origin_func(input, other)
    quotient = _trunc_divide if ctx.origin_func.__name__ == "fmod" else _floor_divide
    return input - quotient(input, other) * other


@rewriters.function("torch.bitwise_right_shift")
@rewriters.function("torch.Tensor.bitwise_right_shift")
@rewriters.function("torch.Tensor.__rshift__")
def right_shift(ctx: Context, input: Any, other: Any) -> Any:  # noqa: A002  # torch's name
    """Divide integers by a power of two: OpenVINO shifts zeros into negative integers."""
    if not isinstance(other, int) or not _are_integers(input):
        return ctx.origin_func(input, other)
    return _floor_divide(input, 1 << other)


@rewriters.function("torch.pow")
@rewriters.function("torch.Tensor.pow")
@rewriters.function("torch.Tensor.__pow__")
def power(ctx: Context, input: Any, exponent: Any) -> Any:  # noqa: A002  # torch's name
    """Multiply integers repeatedly, if the exponent is a number."""
    if not isinstance(exponent, int) or not 1 < exponent < 64 or not _are_integers(input):
        return ctx.origin_func(input, exponent)
    half = power(ctx, input, exponent // 2) if exponent > 3 else input
    return half * half * input if exponent % 2 else half * half


def _floor_divide(x: Any, divisor: Any) -> Any:
    """Return the quotient rounded down.

    The first quotient, in float32, may be wrong by one or more; the remainder corrects it.
    """
    import torch

    quotient = torch.div(x, divisor, rounding_mode="floor")
    return quotient + torch.div(x - quotient * divisor, divisor, rounding_mode="floor")


def _trunc_divide(x: Any, divisor: Any) -> Any:
    quotient = _floor_divide(x, divisor)
    return quotient + ((quotient < 0) & (quotient * divisor != x)).to(quotient.dtype)


def _are_integers(x: Any, *others: Any) -> bool:
    """Return True if the first value is a tensor of integers, and all others are integers too.

    False for a scalar tensor: sizes are scalars in a TorchScript trace, and never that large.
    """
    import torch

    def is_integer(value: Any) -> bool:
        if not isinstance(value, torch.Tensor):
            return isinstance(value, int)
        return not (value.is_floating_point() or value.is_complex() or value.dtype is torch.bool)

    return isinstance(x, torch.Tensor) and x.dim() > 0 and all(map(is_integer, (x, *others)))


def _average_with_divisor(
    input: Tensor,  # noqa: A002  # torch's name
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    divisor: int,
) -> Tensor:
    """Average in three dimensions, where core's rewriter supports a divisor."""
    from torch.nn import functional

    kernel, pads = (
        [n, *_expand_numbers(value, 2)] for n, value in ((1, kernel_size), (0, padding))
    )
    strides = [1, *_expand_numbers(stride, 2)] if stride else kernel
    more = (kernel, strides, pads, ceil_mode, True, divisor)
    return functional.avg_pool3d(input.unsqueeze(-3), *more).squeeze(-3)


def _limit_window(input: Tensor, kernel_size: Any, padding: Any) -> Any:  # noqa: A002  # torch's name
    """Limit the window to the padded input; a dynamic size counts as large enough."""
    import torch

    kernel = _expand_numbers(kernel_size, 1)
    if len(kernel) == 1 and input.dim() == 4:
        kernel *= 2
    sizes = input.shape[-len(kernel) :]
    if any(isinstance(size, torch.SymInt) for size in sizes):
        return kernel_size
    pads = _expand_numbers(padding, len(kernel))
    return [min(k, int(n) + 2 * p) for k, n, p in zip(kernel, sizes, pads, strict=True)]


def _expand_numbers(value: Any, times: int) -> list[int]:
    """Return one number for each dimension."""
    values = list(value) if isinstance(value, tuple | list) else [value]
    return values if len(values) > 1 else values * times
