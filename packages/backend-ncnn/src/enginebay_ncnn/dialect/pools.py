"""Write each pooling operator as a padding layer and a pooling layer without padding.

ncnn and pnnx interpret ``padding``, ``ceil_mode`` and ``count_include_pad`` differently from torch.
An average over a pooling window that contains padding is multiplied by a correction.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.dialect.arithmetic import write_mul
from enginebay_ncnn.dialect.images import write_constant_pad_nd
from enginebay_ncnn.dialect.layout import reshape
from enginebay_ncnn.dialect.values import Value, emit_call

if TYPE_CHECKING:
    from collections.abc import Sequence


#: The padding of a maximum pool, instead of -inf: ncnn's text format has no infinity.
_LOWEST = torch.finfo(torch.float32).min


def _fit_windows(
    image: Sequence[int], output: Sequence[int], kernel: Sequence[int], *rest: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return kernel size and padding such that each pooling window lies in the padded image.

    ``image`` and ``output`` are the sizes before and after pooling; ``rest`` is stride, padding and
    dilation. The returned padding is in the order of ``torch.nn.functional.pad``.
    """
    stride, padding, dilation = rest
    window, border = [], []
    for size, count, k, s, p, d in zip(
        image, output, kernel, stride, padding, dilation, strict=True
    ):
        # The only window of a dimension needs to be no larger than the image.
        k = min(k, (p + size - 1) // d + 1) if count == 1 else k
        window.append(k)
        border.append((p, max((count - 1) * s + (k - 1) * d + 1 - p - size, 0)))
    return window, [side for both in reversed(border) for side in both]


def write_pool(name: str, operand: Value, kernel: Sequence[int], *args: Any) -> Value:
    """Return the result of a pooling operator, such as ``max_pool2d``."""
    operator, dims = getattr(torch.ops.aten, name), int(name[-2])
    front, image = operand.shape[: operand.ndim - dims], operand.shape[operand.ndim - dims :]
    stride, padding, dilation = _unpack_arguments(name, dims, kernel, args)
    # The operator's result for an image of ones has the output size, and for a mean the share of
    # the image in each window.
    ones = torch.ones(1, 1, *image)
    share_in_image = operator(ones, kernel, *args)
    kernel = list(kernel) * (dims if len(kernel) == 1 else 1)
    window, border = _fit_windows(
        image, share_in_image.shape[2:], kernel, stride, padding, dilation
    )
    operand = reshape(operand, (1, math.prod(front), *image))
    if name.startswith("max"):
        operand = write_constant_pad_nd(operand, border, _LOWEST)
        result = emit_call(lambda t: operator(t, window, stride, [0] * dims, dilation), operand)
    else:
        operand = write_constant_pad_nd(operand, border)
        result = emit_call(lambda t: operator(t, window, stride), operand)
        correction = share_in_image / operator(write_constant_pad_nd(ones, border), window, stride)
        if (correction - 1).abs().max() > 1e-6:
            result = write_mul(result, correction)
    return reshape(result, (*front, *share_in_image.shape[2:]))


def _unpack_arguments(
    name: str, dims: int, kernel: Sequence[int], args: Sequence[Any]
) -> tuple[list[int], ...]:
    """Return stride, padding and dilation, each as one number per dimension."""
    stride = args[0] if args and len(args[0]) else kernel
    padding = args[1] if len(args) > 1 else [0]
    dilation = args[2] if name.startswith("max") and len(args) > 2 else [1]
    return tuple(
        list(option) * (dims if len(option) == 1 else 1) for option in (stride, padding, dilation)
    )
