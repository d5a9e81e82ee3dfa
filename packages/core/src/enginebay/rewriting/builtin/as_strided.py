"""``as_strided``: the TorchScript exporter takes the input for contiguous, whatever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.targets import torchscript_only

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriters."""
    for name in ("torch.as_strided", "torch.Tensor.as_strided"):
        rewriters.function(name, ir="onnx", check=torchscript_only)(as_strided)


def as_strided(
    ctx: Context,
    input: Tensor,  # noqa: A002  # torch's name
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Any:
    """Rewrites ``torch.as_strided``: brings the elements in the order that memory has them in.

    What reads memory beside the input's own elements stays with torch.
    """
    import torch

    order = sorted(range(input.dim()), key=input.stride, reverse=True)
    start = 0 if storage_offset is None else storage_offset - input.storage_offset()
    reach = sum((int(n) - 1) * step for n, step in zip(size, stride, strict=False))
    in_memory = input.permute(order)
    inside = in_memory.is_contiguous() and 0 <= start <= start + reach < input.numel()
    if len(size) != len(stride) or not inside or min([*stride, 0]) < 0:
        return ctx.origin_func(input, size, stride, storage_offset)
    place = torch.full([1] * len(size), int(start), device=input.device)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        along = [-1 if each == axis else 1 for each in range(len(size))]
        place = place + torch.arange(count, device=input.device).view(along) * step
    return in_memory.reshape(-1)[place]
