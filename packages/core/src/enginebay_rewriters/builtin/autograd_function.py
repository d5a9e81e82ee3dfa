"""Rewriter of autograd functions, whose traced calls cannot be saved as TorchScript."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay_rewriters.builtin.common import is_tracing, rewriters

if TYPE_CHECKING:
    from torch.autograd import Function

    from enginebay.authors import Context


@rewriters.function("torch.autograd.Function.apply", ir="torchscript")
def apply(ctx: Context, function: type[Function], *args: object, **kwargs: object) -> object:
    """During a trace, call ``forward`` directly, so that the operators in it are recorded."""
    import torch
    from torch.autograd.function import FunctionCtx

    if not is_tracing():
        return ctx.origin_func(function, *args, **kwargs)
    # If a function defines setup_context, its forward takes no context.
    if function.setup_context is not torch.autograd.Function.setup_context:
        return function.forward(*args, **kwargs)
    function_ctx: Any = FunctionCtx()
    function_ctx.needs_input_grad = (False,) * len(args)
    return function.forward(function_ctx, *args, **kwargs)
