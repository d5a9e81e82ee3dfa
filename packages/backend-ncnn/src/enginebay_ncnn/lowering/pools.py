"""Pools with a window, each image for itself, and with no window beyond its edge.

ncnn and pnnx read the flags for windows that reach over the edge in ways of their own, so the edge
is moved instead: the image gets a border, and the windows' means are corrected by how much of them
is border.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.lowering.arithmetic import lower_mul
from enginebay_ncnn.lowering.images import lower_pad
from enginebay_ncnn.lowering.layout import reshape
from enginebay_ncnn.lowering.registry import constant, lowers, sizes_of
from enginebay_ncnn.lowering.torch_internals import untraced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

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


def _pool(name: str, dims: int) -> Callable[..., Tensor]:
    def lowering(x: Tensor, kernel: Sequence[int], *args: Any, **kwargs: Any) -> Tensor:
        operator = getattr(torch.ops.aten, f"{name}{dims}d")
        sizes = sizes_of(x)
        front, image = sizes[: x.ndim - dims], sizes[x.ndim - dims :]
        stride, padding, dilation = _arguments(name, dims, kernel, args)
        with untraced():  # what the model's own operator does with ones tells the rest
            ones = torch.ones(1, 1, *image)
            whole = operator(ones, kernel, *args, **kwargs)
        kernel = list(kernel) * (dims if len(kernel) == 1 else 1)
        window, border = _windows(image, sizes_of(whole)[2:], kernel, stride, padding, dilation)
        x = reshape(x, (1, math.prod(front), *image))
        if name == "max_pool":
            x = lower_pad(x, border, _LOWEST)
            result = operator(x, window, stride, [0] * dims, dilation)
        else:
            x = lower_pad(x, border)
            result = operator(x, window, stride)
            with untraced():
                share = whole / operator(lower_pad(ones, border), window, stride)
            if (share - 1).abs().max() > 1e-6:
                result = lower_mul(result, constant(share))
        return reshape(result, (*front, *sizes_of(whole)[2:]))

    return lowering


def _arguments(
    name: str, dims: int, kernel: Sequence[int], args: Sequence[Any]
) -> tuple[list[int], ...]:
    """Stride, padding and dilation, one number for each dimension."""
    stride = args[0] if args and len(args[0]) else kernel
    padding = args[1] if len(args) > 1 else [0]
    dilation = args[2] if name == "max_pool" and len(args) > 2 else [1]
    return tuple(
        list(each) * (dims if len(each) == 1 else 1) for each in (stride, padding, dilation)
    )


for _name in ("avg_pool", "max_pool"):
    for _dims in (1, 2, 3):
        lowers(f"{_name}{_dims}d")(_pool(_name, _dims))
