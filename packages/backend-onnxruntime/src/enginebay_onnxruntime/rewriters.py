"""Rewriters for what ONNX Runtime has no kernel for, or one that is not exact.

``Where`` and ``Trilu`` exist for some dtypes only. The others go through a wider one and back: the
values are small, so nothing is lost. ``Sigmoid`` is within 1e-7 on the CPU, which is all there is
of a detector's score for the background: 0.2 % off at -10, a third at -15, and 0 below -18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from enginebay.authors import Context

rewriters = eb.RewriterSet(backend="onnxruntime")

#: Dtypes that an operator has no kernel for (ONNX Runtime 1.31, CPU), and one to go through.
_WHERE = {"bool": "uint8", "int16": "int32", "uint16": "int32"}
_TRILU = {"int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64"}


@rewriters.symbolic("sigmoid", is_pytorch=True, ir="onnx")
def sigmoid(ctx: Context, g: Any, self: Any) -> Any:  # noqa: ARG001  # as every rewriter has it
    """Compute 1 / (1 + exp(-x)), to float32's precision and in half more of the time."""
    import torch

    dtype = getattr(torch, (self.type().scalarType() or "Float").lower())
    one = g.op("Constant", value_t=torch.tensor(1.0, dtype=dtype))
    return g.op("Reciprocal", g.op("Add", one, g.op("Exp", g.op("Neg", self))))


@rewriters.function("torch.masked_fill", ir="onnx")
@rewriters.function("torch.Tensor.masked_fill", ir="onnx")
def masked_fill(ctx: Context, input: Tensor, mask: Tensor, value: Any) -> Any:  # noqa: A002  # torch's name
    """Fill through a dtype that ``Where`` takes."""
    import torch

    wide = _wide(input.dtype, _WHERE)
    if wide is None:
        return ctx.origin_func(input, mask, value)
    if isinstance(value, torch.Tensor):
        value = value.to(input.dtype).to(wide)
    elif input.dtype == torch.bool:
        value = int(bool(value))
    return ctx.origin_func(input.to(wide), mask, value).to(input.dtype)


@rewriters.function("torch.Tensor.masked_fill_", ir="onnx")
def masked_fill_(ctx: Context, self: Tensor, mask: Tensor, value: Any) -> Any:
    """Fill in place, with the result of the rewriter above."""
    if _wide(self.dtype, _WHERE) is None:
        return ctx.origin_func(self, mask, value)
    return self.copy_(self.masked_fill(mask, value))


@rewriters.function("torch.where", ir="onnx")
def where(ctx: Context, condition: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Select through a dtype that ``Where`` takes."""
    import torch

    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    if kwargs or not tensors or len(args) == 1:
        return ctx.origin_func(condition, *args, **kwargs)
    dtype = torch.result_type(*args)
    wide = _wide(dtype, _WHERE)
    if wide is None:
        return ctx.origin_func(condition, *args)
    chosen = (torch.as_tensor(each, dtype=dtype).to(wide) for each in args)
    return ctx.origin_func(condition, *chosen).to(dtype)


@rewriters.function("torch.Tensor.where", ir="onnx")
def tensor_where(ctx: Context, self: Tensor, condition: Tensor, other: Any) -> Any:  # noqa: ARG001  # never the original
    """Call ``torch.where``, which has a rewriter."""
    import torch

    return torch.where(condition, self, other)


@rewriters.function("torch.triu", ir="onnx")
@rewriters.function("torch.tril", ir="onnx")
@rewriters.function("torch.Tensor.triu", ir="onnx")
@rewriters.function("torch.Tensor.tril", ir="onnx")
def triangle(ctx: Context, input: Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: A002  # torch's name
    """Cut a triangle out, through a dtype that ``Trilu`` takes."""
    wide = _wide(input.dtype, _TRILU)
    if wide is None or "out" in kwargs:
        return ctx.origin_func(input, *args, **kwargs)
    return ctx.origin_func(input.to(wide), *args, **kwargs).to(input.dtype)


def _wide(dtype: torch.dtype, table: dict[str, str]) -> torch.dtype | None:
    """Return the dtype to go through; None where the kernel exists."""
    import torch

    name = table.get(str(dtype).removeprefix("torch."))
    return None if name is None else getattr(torch, name)
