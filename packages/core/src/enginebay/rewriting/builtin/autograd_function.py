"""Calls of a ``torch.autograd.Function``: TorchScript traces them, and cannot save them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriter."""
    rewriters.function("torch.autograd.Function.apply", ir="torchscript")(apply)


def apply(ctx: Context, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Rewrites ``apply``: runs what it computes forward as the model's own code."""
    import torch
    from torch.autograd.function import FunctionCtx

    if not torch.jit.is_tracing():  # type: ignore[no-untyped-call,attr-defined]  # torch has no types here
        return ctx.origin_func(function, *args, **kwargs)
    if function.setup_context is not torch.autograd.Function.setup_context:
        return function.forward(*args, **kwargs)  # it sees no context
    notes: Any = FunctionCtx()
    notes.needs_input_grad = (False,) * len(args)
    return function.forward(notes, *args, **kwargs)
