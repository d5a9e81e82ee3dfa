"""``adaptive_avg_pool1d`` and ``2d``: the TorchScript exporter takes whole factors of fixed sizes.

Averaging over windows is linear: one small matrix a dimension says which input belongs to which
output. It is computed in the graph, so an open size stays open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.targets import not_dynamo

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriters."""
    for name, function in (
        ("torch.nn.functional.adaptive_avg_pool2d", adaptive_avg_pool2d),
        ("torch.nn.functional.adaptive_avg_pool1d", adaptive_avg_pool1d),
    ):
        rewriters.function(name, ir="onnx", check=not_dynamo)(function)


def adaptive_avg_pool2d(ctx: Context, input: Tensor, output_size: Any) -> Any:  # noqa: A002  # torch's name
    """Rewrites ``torch.nn.functional.adaptive_avg_pool2d``."""
    wanted = output_size if isinstance(output_size, tuple | list) else (output_size, output_size)
    if not _fits(input, 2, wanted):
        return ctx.origin_func(input, output_size)
    for axis, size in zip((-2, -1), wanted, strict=True):
        if size is not None:
            input = _pooled(input, axis, size)  # noqa: A001  # torch's name
    return input


def adaptive_avg_pool1d(ctx: Context, input: Tensor, output_size: Any) -> Any:  # noqa: A002  # torch's name
    """Rewrites ``torch.nn.functional.adaptive_avg_pool1d``."""
    wanted = output_size if isinstance(output_size, tuple | list) else (output_size,)
    if not _fits(input, 1, wanted):
        return ctx.origin_func(input, output_size)
    return _pooled(input, -1, wanted[0])


def _fits(input: Tensor, axes: int, wanted: Any) -> bool:  # noqa: A002  # torch's name
    """Whether the exporter would fail: it can do all-ones, and only numbers can be judged."""
    numbers = all(size is None or (type(size) is int and size > 0) for size in wanted)
    return (
        len(wanted) == axes
        and numbers
        and set(wanted) != {1}
        and input.is_floating_point()
        and input.dim() in (axes + 1, axes + 2)
    )


def _pooled(input: Tensor, axis: int, size: int) -> Tensor:  # noqa: A002  # torch's name
    weights = _weights(input, axis, size)
    return weights @ input if axis == -2 else input @ weights.T


def _weights(input: Tensor, axis: int, size: int) -> Tensor:  # noqa: A002  # torch's name
    """Output×input, rows that sum to one: window i is [⌊i·n/size⌋, ⌈(i+1)·n/size⌉)."""
    import torch

    length = input.shape[axis]
    outputs = torch.arange(size, device=input.device)[:, None]
    inputs = torch.arange(length, device=input.device)
    start = outputs * length // size
    end = ((outputs + 1) * length + size - 1) // size
    inside = (inputs >= start) & (inputs < end)
    return inside.to(input.dtype) / (end - start).to(input.dtype)
