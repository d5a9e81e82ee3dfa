"""Pools with a window, each image for itself, and with no window beyond its edge.

ncnn and pnnx read the flags for windows that reach over the edge in ways of their own, so the edge
is moved instead: the image gets a border, and the windows' means are corrected by how much of them
is border.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.dialect.arithmetic import write_mul
from enginebay_ncnn.dialect.images import write_constant_pad_nd
from enginebay_ncnn.dialect.layout import reshape
from enginebay_ncnn.dialect.values import Value, emit

if TYPE_CHECKING:
    from collections.abc import Sequence


_LOWEST = torch.finfo(torch.float32).min


def _windows(
    image: Sequence[int], wanted: Sequence[int], kernel: Sequence[int], *rest: Sequence[int]
) -> tuple[list[int], list[int]]:
    """The window that is needed, and the border as ``pad`` takes it: last dimension first."""
    stride, padding, dilation = rest
    window, border = [], []
    for size, count, k, s, p, d in zip(
        image, wanted, kernel, stride, padding, dilation, strict=True
    ):
        k = min(k, (p + size - 1) // d + 1) if count == 1 else k
        window.append(k)
        border.append((p, max((count - 1) * s + (k - 1) * d + 1 - p - size, 0)))
    return window, [side for both in reversed(border) for side in both]


def write_pool(name: str, x: Value, kernel: Sequence[int], *args: Any) -> Value:
    """Write a pool, such as ``max_pool2d``."""
    operator, dims = getattr(torch.ops.aten, name), int(name[-2])
    front, image = x.shape[: x.ndim - dims], x.shape[x.ndim - dims :]
    stride, padding, dilation = _arguments(name, dims, kernel, args)
    # What the model's own operator does with ones tells the rest.
    ones = torch.ones(1, 1, *image)
    whole = operator(ones, kernel, *args)
    kernel = list(kernel) * (dims if len(kernel) == 1 else 1)
    window, border = _windows(image, whole.shape[2:], kernel, stride, padding, dilation)
    x = reshape(x, (1, math.prod(front), *image))
    if name.startswith("max"):
        x = write_constant_pad_nd(x, border, _LOWEST)
        result = emit(lambda t: operator(t, window, stride, [0] * dims, dilation), x)
    else:
        x = write_constant_pad_nd(x, border)
        result = emit(lambda t: operator(t, window, stride), x)
        share = whole / operator(write_constant_pad_nd(ones, border), window, stride)
        if (share - 1).abs().max() > 1e-6:
            result = write_mul(result, share)
    return reshape(result, (*front, *whole.shape[2:]))


def _arguments(
    name: str, dims: int, kernel: Sequence[int], args: Sequence[Any]
) -> tuple[list[int], ...]:
    """Stride, padding and dilation, one number for each dimension."""
    stride = args[0] if args and len(args[0]) else kernel
    padding = args[1] if len(args) > 1 else [0]
    dilation = args[2] if name.startswith("max") and len(args) > 2 else [1]
    return tuple(
        list(each) * (dims if len(each) == 1 else 1) for each in (stride, padding, dilation)
    )
