"""Rewriters for what TensorRT's ONNX parser refuses, by its table of operators (10.1 and newer).

https://github.com/onnx/onnx-tensorrt/blob/main/docs/operators.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting import Context

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
