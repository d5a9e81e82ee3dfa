"""Rewriters of pooling, pixel shuffles, ``pad``, ``fold`` and ``unfold`` for unbatched images.

ONNX's operators require N×C×…, but the TorchScript exporter does not add a missing batch dimension.
An engine then refuses the file, or takes the channels for the batch and pools too many dimensions.
Convolutions, ``instance_norm`` and ``interpolate`` need no rewriter: torch itself adds or requires
a batch dimension.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay_rewriters.builtin.common import not_dynamo, rewriters, torchscript_only

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Value

    from enginebay.authors import Context
    from enginebay_rewriters.builtin.common import OnnxGraph

#: The rank of each operator's input without a batch.
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


def _with_batch(rank: int) -> Callable[..., object]:
    def with_batch(ctx: Context, g: OnnxGraph, input: Any, *args: object) -> object:
        """Add nodes that insert a batch dimension, apply the operator, and remove the dimension."""
        if input.type().dim() != rank:
            return ctx.origin_func(g, input, *args)
        results = ctx.origin_func(g, _add_batch(g, input), *args)
        if isinstance(results, tuple | list):
            return tuple(_remove_batch(g, each) for each in results)
        return _remove_batch(g, results)

    return with_batch


for _name, _rank in _RANKS.items():
    rewriters.symbolic(_name, is_pytorch=True, ir="onnx", check=torchscript_only)(
        _with_batch(_rank)
    )


@rewriters.symbolic("pad", is_pytorch=True, ir="onnx", check=torchscript_only)
def pad(
    ctx: Context, g: OnnxGraph, input: Any, padding: Value, mode: Value, value: Value
) -> object:
    """Add the nodes of ``aten::pad``; for the circular mode, add a missing batch dimension."""
    sizes = _read_constant(padding)
    circular = _read_constant(mode) == "circular"
    if circular and sizes is not None and input.type().dim() == len(sizes) // 2 + 1:
        return _remove_batch(g, ctx.origin_func(g, _add_batch(g, input), padding, mode, value))
    return ctx.origin_func(g, input, padding, mode, value)


# TorchScript counts the elements of F.fold's output size, which fails for a size computed from a
# shape. There are always two.
@rewriters.symbolic(
    "col2im",
    is_pytorch=True,
    arg_descriptors=("v", "v", "v", "is", "is", "is"),
    ir="onnx",
    check=not_dynamo,
)
def col2im(
    ctx: Context,
    g: OnnxGraph,
    self: Any,
    output_size: Value,
    kernel_size: Value,
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> Value:
    """Add a ``Col2Im`` node with the output size as an input; add a missing batch dimension."""
    unbatched = self.type().dim() == 2
    image = g.op(
        "Col2Im",
        _add_batch(g, self) if unbatched else self,
        output_size,
        kernel_size,
        dilations_i=dilation,
        pads_i=[*padding, *padding],
        strides_i=stride,
    )
    return _remove_batch(g, image) if unbatched else image


def _read_constant(value: Value) -> Any:
    """Return the text or the tensor of a constant in the graph; None for any other value."""
    node: Any = value.node()
    if node.kind() != "onnx::Constant":
        return None
    return node.s("value") if node.kindOf("value") == "s" else node.t("value")


def _add_batch(g: OnnxGraph, value: Value) -> Value:
    import torch

    return g.op("Unsqueeze", value, g.op("Constant", value_t=torch.tensor([0])))


def _remove_batch(g: OnnxGraph, value: Value) -> Value:
    import torch

    return g.op("Squeeze", value, g.op("Constant", value_t=torch.tensor([0])))
