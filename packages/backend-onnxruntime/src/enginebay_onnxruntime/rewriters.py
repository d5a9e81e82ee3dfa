"""Rewriters for operators for which ONNX Runtime has no kernel.

``Where`` and ``Trilu`` support only some dtypes. Tensors of other dtypes are converted to a wider
dtype and back, which is exact. Operators with an inexact kernel are replaced in the graph, see
:mod:`enginebay_onnxruntime.repairs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from enginebay.authors import Context

rewriters = eb.RewriterSet(backend="onnxruntime")

#: Dtypes without a kernel (ONNX Runtime 1.31, CPU), and the wider dtypes to use instead.
_WHERE = {"bool": "uint8", "int16": "int32", "uint16": "int32"}
_TRILU = {"int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64"}


@rewriters.function("torch.masked_fill", ir="onnx")
@rewriters.function("torch.Tensor.masked_fill", ir="onnx")
def masked_fill(ctx: Context, input: Tensor, mask: Tensor, value: complex | Tensor) -> Any:  # noqa: A002  # torch's name
    """Convert the tensor to a dtype that ``Where`` supports, fill it, and convert it back."""
    import torch

    wide = _wider_dtype(input.dtype, _WHERE)
    if wide is None:
        return ctx.origin_func(input, mask, value)
    if isinstance(value, torch.Tensor):
        value = value.to(input.dtype).to(wide)
    elif input.dtype == torch.bool:
        value = int(bool(value))
    return ctx.origin_func(input.to(wide), mask, value).to(input.dtype)


@rewriters.function("torch.Tensor.masked_fill_", ir="onnx")
def masked_fill_(ctx: Context, self: Tensor, mask: Tensor, value: complex | Tensor) -> Any:
    """Copy the result of ``masked_fill``, which has a rewriter, into the tensor."""
    if _wider_dtype(self.dtype, _WHERE) is None:
        return ctx.origin_func(self, mask, value)
    return self.copy_(self.masked_fill(mask, value))


@rewriters.function("torch.where", ir="onnx")
def where(ctx: Context, condition: Tensor, *args: Any, **kwargs: object) -> Any:
    """Convert the tensors to a dtype that ``Where`` supports, and convert the result back."""
    import torch

    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    if kwargs or not tensors or len(args) == 1:
        return ctx.origin_func(condition, *args, **kwargs)
    dtype = torch.result_type(*args)
    wide = _wider_dtype(dtype, _WHERE)
    if wide is None:
        return ctx.origin_func(condition, *args)
    converted = (torch.as_tensor(arg, dtype=dtype).to(wide) for arg in args)
    return ctx.origin_func(condition, *converted).to(dtype)


@rewriters.function("torch.Tensor.where", ir="onnx")
def tensor_where(ctx: Context, self: Tensor, condition: Tensor, other: Tensor) -> Tensor:  # noqa: ARG001  # never the original
    """Call ``torch.where``, which has a rewriter."""
    import torch

    return torch.where(condition, self, other)


@rewriters.function("torch.triu", ir="onnx")
@rewriters.function("torch.tril", ir="onnx")
@rewriters.function("torch.Tensor.triu", ir="onnx")
@rewriters.function("torch.Tensor.tril", ir="onnx")
def triangle(ctx: Context, input: Tensor, *args: object, **kwargs: object) -> Any:  # noqa: A002  # torch's name
    """Convert the tensor to a dtype that ``Trilu`` supports, and convert the result back."""
    wide = _wider_dtype(input.dtype, _TRILU)
    if wide is None or "out" in kwargs:
        return ctx.origin_func(input, *args, **kwargs)
    return ctx.origin_func(input.to(wide), *args, **kwargs).to(input.dtype)


def _wider_dtype(dtype: torch.dtype, table: dict[str, str]) -> torch.dtype | None:
    """Return the wider dtype that replaces ``dtype``; None if ONNX Runtime supports ``dtype``."""
    import torch

    name = table.get(str(dtype).removeprefix("torch."))
    return None if name is None else getattr(torch, name)
