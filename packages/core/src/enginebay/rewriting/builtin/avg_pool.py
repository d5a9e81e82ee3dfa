"""``avg_pool2d`` and ``avg_pool3d``: both exporters forget ``divisor_override``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriters."""
    rewriters.function("torch.nn.functional.avg_pool2d")(avg_pool2d)
    rewriters.function("torch.nn.functional.avg_pool3d")(avg_pool3d)


def avg_pool2d(ctx: Context, input: Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: A002  # torch's name
    """Rewrites ``F.avg_pool2d``: the average of each window times what torch divides it by."""
    return _pooled(ctx, 2, input, *args, **kwargs)


def avg_pool3d(ctx: Context, input: Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: A002  # torch's name
    """Rewrites ``F.avg_pool3d`` likewise."""
    return _pooled(ctx, 3, input, *args, **kwargs)


def _pooled(
    ctx: Context,
    dims: int,
    input: Tensor,  # noqa: A002  # torch's name
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    from torch.nn import functional

    if not divisor_override:
        own = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        return ctx.origin_func(input, *own)
    kernel, pads = _each(kernel_size, dims), _each(padding, dims)
    steps = _each(stride, dims) if stride else kernel
    if ceil_mode:
        # Zeros up to the end of the last window, which starts before the padding does.
        each = reversed(list(zip(kernel, steps, pads, strict=True)))
        around = [n for k, s, p in each for n in (p, min(p + s - 1, k - 1))]
        input, padding = functional.pad(input, around), 0  # noqa: A001  # torch's name
    average = ctx.origin_func(input, kernel_size, stride, padding, False, True)
    return average * (math.prod(kernel) / divisor_override)


def _each(value: Any, dims: int) -> list[int]:
    """One number a dimension, however they were given."""
    values = list(value) if isinstance(value, tuple | list) else [value]
    return values if len(values) == dims else values * dims
