"""``linspace``: ``torch.export`` fixes an open number of steps, TorchScript forgets the dtype.

The TorchScript exporter gives float64 for ends that are not whole and for those taken from a shape,
whatever the dtype asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriter."""
    rewriters.function("torch.linspace")(linspace)


def linspace(ctx: Context, start: Any, end: Any, steps: Any, **kwargs: Any) -> Any:
    """Rewrites ``torch.linspace``: from both ends to the middle."""
    import torch

    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    kinds = (int, float, torch.Tensor) if ctx.exporter == "torchscript" else (int, float)
    ends = all(isinstance(each, kinds) for each in (start, end))
    needed = isinstance(steps, torch.SymInt) or ctx.exporter == "torchscript"
    known = kwargs.keys() <= {"dtype", "device", "layout", "pin_memory", "requires_grad"}
    if not (needed and ends and known and dtype.is_floating_point):
        return ctx.origin_func(start, end, steps, **kwargs)
    # A size of a traced tensor is a tensor itself.
    first, final = (x.to(dtype) if isinstance(x, torch.Tensor) else x for x in (start, end))
    count: Any = steps  # an open size; torch's types know numbers only
    index = torch.arange(count, dtype=dtype, device=kwargs.get("device"))
    last = index[-1:]
    step = (final - first) / last.clamp(min=1)
    return torch.where(index <= last / 2, first + step * index, final - step * (last - index))
