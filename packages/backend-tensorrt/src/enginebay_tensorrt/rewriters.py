"""Rewriters for what TensorRT's ONNX parser refuses, by its table of operators (10.1 and newer).

https://github.com/onnx/onnx-tensorrt/blob/main/docs/operators.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import Context

rewriters = eb.RewriterSet(backend="tensorrt")


@rewriters.function("torch.topk", ir="onnx")
@rewriters.function("torch.Tensor.topk", ir="onnx")
def topk(
    ctx: Context,
    input: Tensor,  # noqa: A002  # torch's name
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,  # noqa: A002, ARG001  # torch's name; any order will do where it is False
    **kwargs: Any,
) -> Any:
    """Sort always: ``TopK`` with ``sorted=0`` is refused, and promises no order."""
    return ctx.origin_func(input, k, dim, largest, True, **kwargs)


@rewriters.function("torch.cat", ir="onnx")
@rewriters.function("torch.concat", ir="onnx")
@rewriters.function("torch.concatenate", ir="onnx")
def cat(ctx: Context, tensors: Any, dim: int = 0, **kwargs: Any) -> Any:
    """Join bytes as int32: ``Concat`` takes no uint8, ``Cast`` takes it both ways."""
    import torch

    axis = kwargs.pop("axis", dim)
    if kwargs or any(tensor.dtype != torch.uint8 for tensor in tensors):
        return ctx.origin_func(tensors, axis, **kwargs)
    return ctx.origin_func([tensor.int() for tensor in tensors], axis).to(torch.uint8)


@rewriters.function("torch.nn.functional.interpolate", ir="onnx")
def interpolate(
    ctx: Context,
    input: Tensor,  # noqa: A002  # torch's name
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Antialias by two matrix products, where height and width are numbers.

    While the TorchScript exporter traces they are not; it has nothing for such resizing anyway.
    """
    import torch

    from enginebay_tensorrt.resampling import scales, weights

    arguments = (size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    if not (antialias and mode in ("bilinear", "bicubic") and input.dim() == 4):
        return ctx.origin_func(input, *arguments)
    height, width = input.shape[2:]
    sizes = [height, width, *(size if isinstance(size, tuple | list) else [size or 0])]
    if align_corners or not all(type(each) is int for each in sizes):
        return ctx.origin_func(input, *arguments)
    wanted, steps = scales((height, width), size, scale_factor, recompute_scale_factor)
    down, across = (
        torch.from_numpy(weights(n, m, step, mode)).to(input.dtype)
        for n, m, step in zip((height, width), wanted, steps, strict=True)
    )
    return down @ (input @ across.T)
