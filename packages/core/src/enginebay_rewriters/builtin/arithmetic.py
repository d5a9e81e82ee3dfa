"""Rewriters of ``linspace``, ``diff``, ``div`` with truncation, ``log1p`` and ``expm1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay_rewriters.builtin.common import not_dynamo, not_torchscript, rewriters

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from enginebay.authors import Context, LoweringContext


# torch.export replaces a dynamic number of steps by a constant. For ends that are not integers or
# come from a shape, TorchScript writes float64, whatever the requested dtype.
@rewriters.function("torch.linspace")
def linspace(
    ctx: Context,
    start: Tensor | float,
    end: Tensor | float,
    steps: int | torch.SymInt | Tensor,
    **kwargs: Any,
) -> object:
    """Compute the first half from ``start``, the second half back from ``end``, as torch does."""
    import torch

    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    kinds = (int, float, torch.Tensor) if ctx.exporter == "torchscript" else (int, float)
    are_numbers = all(isinstance(each, kinds) for each in (start, end))
    is_needed = isinstance(steps, torch.SymInt) or ctx.exporter == "torchscript"
    is_known = kwargs.keys() <= {"dtype", "device", "layout", "pin_memory", "requires_grad"}
    if not (is_needed and are_numbers and is_known and dtype.is_floating_point):
        return ctx.origin_func(start, end, steps, **kwargs)
    # In a trace, a tensor's size is a tensor too.
    first, final = (x.to(dtype) if isinstance(x, torch.Tensor) else x for x in (start, end))
    count: Any = steps  # may be a dynamic size, which torch's type hints do not include
    index = torch.arange(count, dtype=dtype, device=kwargs.get("device"))
    last = index[-1:]
    step = (final - first) / last.clamp(min=1)
    return torch.where(index <= last / 2, first + step * index, final - step * (last - index))


# TorchScript has no translation.
@rewriters.function("torch.diff", ir="onnx", check=not_dynamo)
@rewriters.function("torch.Tensor.diff", ir="onnx", check=not_dynamo)
def diff(
    ctx: Context,
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    **kwargs: object,
) -> object:
    """Subtract each element from the next one, ``n`` times."""
    import torch

    # The original handles type promotion, invalid shapes and n = 0.
    parts = [part for part in (prepend, input, append) if part is not None]
    is_uniform = all((part.dim(), part.dtype) == (input.dim(), input.dtype) for part in parts)
    if kwargs or n < 1 or not is_uniform or not -input.dim() <= dim < input.dim():
        return ctx.origin_func(input, n, dim, prepend, append, **kwargs)
    values = torch.cat(parts, dim) if len(parts) > 1 else input
    for _ in range(n):
        if values.shape[dim] == 0:
            break
        pairs = values.shape[dim] - 1
        later, earlier = values.narrow(dim, 1, pairs), values.narrow(dim, 0, pairs)
        values = later ^ earlier if values.dtype == torch.bool else later - earlier
    return values


@rewriters.lowering("aten.div.Tensor_mode", ir="onnx", check=not_torchscript)
def div(
    ctx: LoweringContext, x: Tensor, other: Tensor | float, *, rounding_mode: str | None = None
) -> Tensor:
    """Divide integers exactly; the default exporter uses float32, which is inexact above 2²⁴."""
    result: Tensor = ctx.origin_op(x, other, rounding_mode=rounding_mode)
    if rounding_mode != "trunc" or result.dtype.is_floating_point:
        return result
    quotient: Tensor = x // other  # rounded down: one too low for a negative inexact quotient
    is_below: Tensor = (quotient < 0) & (quotient * other != x)
    return quotient + is_below.to(quotient.dtype)


#: Below this magnitude ``1 + x`` and ``exp(x) - 1`` lose digits of ``x``. Kahan's correction cannot
#: be used: some engines simplify its ``(1 + x) - 1`` to ``x``.
_NEAR_ZERO = 0.5


@rewriters.lowering("aten.log1p", ir="onnx")
def log1p(ctx: LoweringContext, x: Tensor) -> Tensor:
    """Compute 2·artanh(x / (x + 2)) near zero, where the exporters' log(1 + x) is inexact."""
    import torch

    x = x.to(torch.result_type(x, 1.0))
    return torch.where(x.abs() < _NEAR_ZERO, torch.atanh(x / (x + 2)) * 2, (x + 1).log())


@rewriters.lowering("aten.expm1", ir="onnx")
def expm1(ctx: LoweringContext, x: Tensor) -> Tensor:
    """Compute tanh(x / 2)·(eˣ + 1) near zero, where the exporters' eˣ − 1 is inexact."""
    import torch

    x = x.to(torch.result_type(x, 1.0))
    power = x.exp()
    return torch.where(x.abs() < _NEAR_ZERO, (x / 2).tanh() * (power + 1), power - 1)
