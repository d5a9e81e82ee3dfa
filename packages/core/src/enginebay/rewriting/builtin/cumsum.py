"""``cumsum`` of bools and small integers: torch adds them up as int64.

The TorchScript exporter keeps their dtype, which ONNX's ``CumSum`` does not take.
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
    for name in ("torch.cumsum", "torch.Tensor.cumsum"):
        rewriters.function(name, ir="onnx", check=not_dynamo)(cumsum)


def cumsum(ctx: Context, input: Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: A002  # torch's name
    """Rewrites ``torch.cumsum``: makes them int64 first."""
    import torch

    promoted = not (input.dtype.is_floating_point or input.dtype.is_complex)
    if promoted and kwargs.get("dtype") is None and "out" not in kwargs:
        input = input.to(torch.int64)  # noqa: A001  # torch's name
    return ctx.origin_func(input, *args, **kwargs)
