"""Rewriters of ``any``, ``all``, ``cumsum`` and ``histc``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay_rewriters.builtin.common import not_dynamo, not_torchscript, rewriters

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import Context, LoweringContext


# TorchScript truncates numbers before it compares them with zero, so that any([0.4]) is False. Both
# exporters return bool for uint8, for which torch returns uint8.
@rewriters.function("torch.any", ir="onnx")
@rewriters.function("torch.all", ir="onnx")
@rewriters.function("torch.Tensor.any", ir="onnx")
@rewriters.function("torch.Tensor.all", ir="onnx")
def any_or_all(ctx: Context, input: Tensor, *args: object, **kwargs: object) -> object:
    """Compare each element with zero before the reduction."""
    import torch

    is_supported = input.dtype == torch.bool or (
        ctx.exporter == "dynamo" and input.dtype != torch.uint8
    )
    if is_supported or "out" in kwargs:
        return ctx.origin_func(input, *args, **kwargs)
    result = ctx.origin_func(input != 0, *args, **kwargs)
    return result.to(torch.uint8) if input.dtype == torch.uint8 else result


# torch._check_tensor_all calls this operator, and dynamo has no translation.
@rewriters.lowering("aten._is_all_true", ir="onnx", check=not_torchscript)
def is_all_true(ctx: LoweringContext, x: Tensor) -> Tensor:
    """Return ``x.all()``, because ``_is_all_true`` is the same operator for bools only."""
    return x.all()


# TorchScript does not convert bools and small integers, which ONNX's CumSum does not accept.
@rewriters.function("torch.cumsum", ir="onnx", check=not_dynamo)
@rewriters.function("torch.Tensor.cumsum", ir="onnx", check=not_dynamo)
def cumsum(ctx: Context, input: Tensor, *args: object, **kwargs: object) -> object:
    """Convert bools and integers to int64 before the sum, as torch does."""
    import torch

    is_integer = not (input.dtype.is_floating_point or input.dtype.is_complex)
    if is_integer and kwargs.get("dtype") is None and "out" not in kwargs:
        input = input.to(torch.int64)
    return ctx.origin_func(input, *args, **kwargs)


# Only dynamo has a translation; OpenVINO, which reads TorchScript, does not.
@rewriters.function("torch.histc", check=not_dynamo)
@rewriters.function("torch.Tensor.histc", check=not_dynamo)
def histc(
    ctx: Context, input: Tensor, bins: int = 100, min: float = 0, max: float = 0, **kwargs: object
) -> object:
    """Compare the bin index of each element with every bin index, and count the matches."""
    import torch

    # With equal ends the range depends on the data: such a call is left to torch.
    if not min < max or bins < 1 or kwargs or not input.dtype.is_floating_point:
        return ctx.origin_func(input, bins, min, max, **kwargs)
    values = input.reshape(-1, 1)
    inside = (values >= min) & (values <= max)
    # The largest value belongs to the last bin; the bins are rounded as in torch.
    position = ((values - min) * bins / (max - min)).floor().clamp(max=bins - 1)
    all_bins = torch.arange(bins, dtype=input.dtype, device=input.device)
    return ((position == all_bins) & inside).to(input.dtype).sum(0)
