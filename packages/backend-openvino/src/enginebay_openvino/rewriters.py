"""Rewriters for what OpenVINO does not support, or computes in another way.

With ``ceil_mode`` torch and ONNX accept a pooling window larger than the input, which OpenVINO
2026.4 refuses. Some models write global pooling that way.
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
