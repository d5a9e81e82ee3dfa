"""Poolings and rearrangements of images without a batch: the TorchScript exporter adds none.

ONNX's operators want N×C×…, and the exporter writes down what torch was given: an engine refuses
the file, or takes the channels for the batch and pools too many dimensions. Convolutions,
``instance_norm`` and ``interpolate`` are right: torch adds the batch itself, or wants one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.builtin.targets import torchscript_only

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context

#: The rank of what an operator takes without a batch.
_RANKS = {
    f"{pooling}{dims}d{indices}": dims + 1
    for dims in (1, 2, 3)
    for pooling, indices in (
        ("max_pool", ""),
        ("max_pool", "_with_indices"),
        ("avg_pool", ""),
        ("adaptive_avg_pool", ""),
        ("adaptive_max_pool", ""),
    )
} | {"pixel_shuffle": 3, "pixel_unshuffle": 3, "im2col": 3}


def declare(rewriters: RewriterSet) -> None:
    """Add the symbolics."""
    for name, rank in _RANKS.items():
        symbolic = rewriters.symbolic(name, is_pytorch=True, ir="onnx", check=torchscript_only)
        symbolic(_with_batch(rank))
    rewriters.symbolic("pad", is_pytorch=True, ir="onnx", check=torchscript_only)(pad)


def _with_batch(rank: int) -> Callable[..., Any]:
    def with_batch(ctx: Context, g: Any, input: Any, *args: Any) -> Any:  # noqa: A002  # torch's name
        """The operator's own nodes, between a new batch of one and its removal."""
        if input.type().dim() != rank:
            return ctx.origin_func(g, input, *args)
        results = ctx.origin_func(g, unsqueezed(g, input), *args)
        if isinstance(results, tuple | list):
            return tuple(squeezed(g, each) for each in results)
        return squeezed(g, results)

    return with_batch


def pad(ctx: Context, g: Any, input: Any, padding: Any, mode: Any, value: Any) -> Any:  # noqa: A002  # torch's name
    """The nodes of ``aten::pad``, whose circular kind wants a batch."""
    from torch.onnx import symbolic_helper

    sizes = symbolic_helper._maybe_get_const(padding, "is")
    circular = symbolic_helper._maybe_get_const(mode, "s") == "circular"
    if circular and isinstance(sizes, list) and input.type().dim() == len(sizes) // 2 + 1:
        return squeezed(g, ctx.origin_func(g, unsqueezed(g, input), padding, mode, value))
    return ctx.origin_func(g, input, padding, mode, value)


def unsqueezed(g: Any, value: Any) -> Any:
    """The nodes that add a batch of one in front."""
    import torch

    return g.op("Unsqueeze", value, g.op("Constant", value_t=torch.tensor([0])))


def squeezed(g: Any, value: Any) -> Any:
    """The nodes that remove it."""
    import torch

    return g.op("Squeeze", value, g.op("Constant", value_t=torch.tensor([0])))
