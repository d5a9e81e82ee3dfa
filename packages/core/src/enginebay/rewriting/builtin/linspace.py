"""``linspace`` with an open number of steps, which ``torch.export`` would fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginebay.rewriting.context import Context
    from enginebay.rewriting.declaration import RewriterSet


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriter."""
    rewriters.function("torch.linspace")(linspace)


def linspace(ctx: Context, start: Any, end: Any, steps: Any, **kwargs: Any) -> Any:
    """Rewrites ``torch.linspace`` where ``steps`` is an open size: from both ends to the middle."""
    import torch

    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    numbers = all(isinstance(each, int | float) for each in (start, end))
    known = kwargs.keys() <= {"dtype", "device", "layout", "pin_memory", "requires_grad"}
    if not (isinstance(steps, torch.SymInt) and numbers and known and dtype.is_floating_point):
        return ctx.origin_func(start, end, steps, **kwargs)
    count: Any = steps  # an open size; torch's types know numbers only
    index = torch.arange(count, dtype=dtype, device=kwargs.get("device"))
    last = index[-1:]
    step = (end - start) / last.clamp(min=1)
    return torch.where(index <= last / 2, start + step * index, end - step * (last - index))
