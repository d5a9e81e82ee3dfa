"""The ATen operators that a lowered graph may contain, and a function that writes them for pnnx.

All other operators are first lowered to these operators, by the package ``lowerings``, by
Enginebay's core or by torch's decompositions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.dialect import (
    arithmetic,
    contraction,
    gather,
    images,
    layout,
    logic,
    norms,
    reductions,
)
from enginebay_ncnn.dialect.arithmetic import apply_unary
from enginebay_ncnn.dialect.images import write_channelwise
from enginebay_ncnn.dialect.pools import write_pool
from enginebay_ncnn.dialect.values import Blob, UnsupportedError, emit_call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch._ops import OpOverload

#: Elementwise functions of one operand that ncnn has, written unchanged.
UNARY = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf"),
    *("exp", "expm1", "floor", "log", "log10", "log1p", "reciprocal", "round", "rsqrt"),
    *("sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "sigmoid", "relu", "relu6"),
    *("gelu", "silu", "elu", "selu", "celu", "leaky_relu", "mish", "hardtanh"),
    *("hardswish", "hardsigmoid", "log_sigmoid"),
)

#: Operators on images that treat every channel alike.
CHANNELWISE = (
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
    *("_adaptive_avg_pool2d", "_adaptive_avg_pool3d"),
    *("reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d"),
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_linear1d"),
    *("upsample_bilinear2d", "upsample_bicubic2d", "pixel_shuffle", "pixel_unshuffle"),
)

#: Pools with a window; see :func:`write_pool`.
POOLS = ("avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d")

#: Operators on images that ncnn has a layer for, written unchanged.
LAYERS = ("im2col", "col2im", "channel_shuffle")

#: Operators that create a tensor from numbers: the tensor is a constant.
CONSTANTS = (
    *("full", "zeros", "ones", "empty", "arange", "scalar_tensor", "eye", "linspace"),
    *("full_like", "zeros_like", "ones_like", "empty_like"),
)

#: The writers of all other operators.
WRITERS: Mapping[str, Callable[..., Any]] = {
    **arithmetic.WRITERS,
    **contraction.WRITERS,
    **gather.WRITERS,
    **images.WRITERS,
    **layout.WRITERS,
    **logic.WRITERS,
    **norms.WRITERS,
    **reductions.WRITERS,
}

OPERATORS = frozenset(
    f"aten.{name}"
    for names in (UNARY, CHANNELWISE, POOLS, LAYERS, CONSTANTS, WRITERS)
    for name in names
)


def write_operator(
    name: str, target: OpOverload, args: list[Any], kwargs: Mapping[str, object]
) -> Any:
    """Write a call of an ATen operator as calls that pnnx converts correctly.

    Args:
        name: The operator's name, such as ``add``; not one of :data:`CONSTANTS`.
        target: The operator.
        args: The operator's positional arguments: blobs, constants and options.
        kwargs: The operator's keyword arguments.

    Returns:
        The operator's result, or the list of its results.

    Raises:
        UnsupportedError: ncnn's operators cannot express the call.
    """
    numbers = (arg for arg in args if isinstance(arg, Blob) and arg.dtype is not torch.bool)
    if name.startswith("bitwise_") and any(numbers):
        raise UnsupportedError(
            f"ncnn does not support '{name}' on integers that are computed from the inputs"
        )
    if name in UNARY:
        first, *rest = args
        return apply_unary(lambda x: target(x, *rest, **kwargs), first)
    if name in CHANNELWISE:
        return write_channelwise(target, *args)
    if name in POOLS:
        return write_pool(name, *args)
    if name in LAYERS:
        return emit_call(lambda x: target(x, *args[1:]), args[0])
    return WRITERS[name](*args, **kwargs)
