"""``linspace``, ``diff``, ``div`` towards zero, ``log1p`` and ``expm1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.common import not_dynamo, not_torchscript, rewriters

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.lowering import LoweringContext
    from enginebay.rewriting.rewriter import Context


# torch.export fixes an open number of steps. TorchScript writes float64 for ends that are not whole
# and for those taken from a shape, whatever the requested dtype.
@rewriters.function("torch.linspace")
def linspace(ctx: Context, start: Any, end: Any, steps: Any, **kwargs: Any) -> Any:
    """Compute from both ends to the middle, as torch does."""
    import torch

    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    kinds = (int, float, torch.Tensor) if ctx.exporter == "torchscript" else (int, float)
    are_numbers = all(isinstance(each, kinds) for each in (start, end))
    is_needed = isinstance(steps, torch.SymInt) or ctx.exporter == "torchscript"
    is_known = kwargs.keys() <= {"dtype", "device", "layout", "pin_memory", "requires_grad"}
    if not (is_needed and are_numbers and is_known and dtype.is_floating_point):
        return ctx.origin_func(start, end, steps, **kwargs)
    # A size of a traced tensor is a tensor itself.
    first, final = (x.to(dtype) if isinstance(x, torch.Tensor) else x for x in (start, end))
    count: Any = steps  # an open size; torch's types know numbers only
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
    **kwargs: Any,
) -> Any:
    """Subtract each element from the next one, ``n`` times."""
    import torch

    # Promotion, shapes that do not fit and n = 0 have rules of their own.
    parts = [part for part in (prepend, input, append) if part is not None]
    alike = all((part.dim(), part.dtype) == (input.dim(), input.dtype) for part in parts)
    if kwargs or n < 1 or not alike or not -input.dim() <= dim < input.dim():
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
def div(ctx: LoweringContext, x: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """The default exporter divides towards zero in float32, which rounds integers beyond 2²⁴."""
    found: Tensor = ctx.origin_op(x, other, rounding_mode=rounding_mode)
    if rounding_mode != "trunc" or found.dtype.is_floating_point:
        return found
    quotient: Tensor = x // other
    is_below: Tensor = (quotient < 0) & (quotient * other != x)
    return quotient + is_below.to(quotient.dtype)


#: Beyond it ``1 + x`` and ``exp(x)`` hold enough of ``x``. Kahan's way to get it back near zero is
#: lost on engines that fold the constants of ``(1 + x) - 1``.
_NEAR = 0.5


@rewriters.lowering("aten.log1p", ir="onnx")
def log1p(ctx: LoweringContext, x: Tensor) -> Tensor:
    """Both exporters have ``log(1 + x)``; near zero it is an area tangent."""
    import torch

    x = x.to(torch.result_type(x, 1.0))
    return torch.where(x.abs() < _NEAR, torch.atanh(x / (x + 2)) * 2, (x + 1).log())


@rewriters.lowering("aten.expm1", ir="onnx")
def expm1(ctx: LoweringContext, x: Tensor) -> Tensor:
    """Both exporters have ``exp(x) - 1``, which is ``tanh(x / 2) * (exp(x) + 1)``."""
    import torch

    x = x.to(torch.result_type(x, 1.0))
    power = x.exp()
    return torch.where(x.abs() < _NEAR, (x / 2).tanh() * (power + 1), power - 1)
