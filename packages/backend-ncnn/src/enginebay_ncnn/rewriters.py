"""Rewriters: what must be other than it is before the model is traced.

Operators that ncnn lacks are no business of theirs. They are known only once the model is a graph,
and are replaced there: see the folder ``lowering``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb

if TYPE_CHECKING:
    from enginebay.rewriting import Context

rewriters = eb.RewriterSet(backend="ncnn")


@rewriters.function("torch.autograd.Function.apply", ir="torchscript")
def apply(ctx: Context, function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG001  # never the original
    """Trace through an operator that is written in Python, which TorchScript cannot save."""
    import torch
    from torch.autograd.function import FunctionCtx

    if function.setup_context is not torch.autograd.Function.setup_context:
        return function.forward(*args, **kwargs)
    context: Any = FunctionCtx()
    context.needs_input_grad = (False,) * len(args)
    return function.forward(context, *args, **kwargs)
