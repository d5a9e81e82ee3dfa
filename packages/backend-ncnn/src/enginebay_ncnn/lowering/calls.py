"""One call of an operator, lowered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from enginebay_ncnn.lowering import (
    arithmetic,
    casts,
    complex_numbers,
    decomposed,
    fourier,  # noqa: F401 - the table's rooms fill it
    gather,
    images,  # noqa: F401
    norms,  # noqa: F401
    ordering,  # noqa: F401
    pools,  # noqa: F401
    recurrent,  # noqa: F401
    scatter,
    solving,  # noqa: F401
)
from enginebay_ncnn.lowering.registry import LOWERINGS, as_float

#: Casts, which need to know what a value stands for.
_CASTS = frozenset(("to", "type_as", "_to_copy", "_cast_Float", "float", "bool", "int", "long"))

#: Functions of single elements that ncnn has.
_UNARY = frozenset(
    (
        *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf"),
        *("exp", "expm1", "floor", "log", "log10", "log1p", "reciprocal", "round", "rsqrt"),
        *("sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "sigmoid", "relu", "relu6"),
        *("gelu", "silu", "elu", "selu", "celu", "leaky_relu", "mish", "hardtanh"),
        *("hardswish", "hardsigmoid", "softsign", "logsigmoid", "log_sigmoid"),
        *("hardshrink", "softshrink"),
    )
)


#: Logical operators, which ask of numbers whether they are zero.
_OF_TRUTHS = frozenset(("logical_not", "bitwise_not", "logical_and", "logical_or", "logical_xor"))

#: Operators that ncnn has a layer for, and that torch would take apart.
_LAYERS = frozenset(("im2col", "col2im", "channel_shuffle", "native_channel_shuffle"))

#: Arguments about how a tensor is stored.
_STORAGE = frozenset(
    (
        *("dtype", "layout", "device", "pin_memory"),
        *("memory_format", "non_blocking", "generator"),
    )
)


@dataclass(frozen=True)
class Call:
    """One call.

    Attributes:
        name: The operator in ``torch.ops.aten``.
        overload: Which of its overloads; empty for the default one.
        arguments: What it takes by position: floats for whatever depends on the inputs.
        keywords: What it takes by name.
        originals: The arguments by position as the model has them, with their own dtypes.
        result: What it gives in the model, where it is known.
    """

    name: str
    overload: str
    arguments: list[Any]
    keywords: dict[str, Any]
    originals: list[Any]
    result: Any


def lower(call: Call) -> Any:
    """Compute what an operator computes with others that pnnx and ncnn have."""
    name, positional, originals = call.name, list(call.arguments), call.originals
    keywords = {key: value for key, value in call.keywords.items() if key not in _STORAGE}
    if name in _CASTS:
        if _is_complex(positional[0]):
            return positional[0]
        return casts.cast(positional[0], _dtype(originals[0]), call.result.dtype)
    if any(map(_is_complex, positional)):
        return complex_numbers.apply(name, positional, keywords)
    if name == "scaled_dot_product_attention":
        keywords["mask_is_bool"] = _dtype(originals[3]) is torch.bool
    if name == "index_put" and _dtype_in(originals[1]) is torch.bool:
        return scatter.lower_masked_put(positional[0], positional[1][0], positional[2])
    if name == "as_strided":
        return gather.strided(positional[0], originals[0], *positional[1:])
    if name in _OF_TRUTHS:
        positional = [
            casts.cast(each, _dtype(own), torch.bool) if _is_tensor(each) else each
            for each, own in zip(positional, originals, strict=False)
        ]
    lowering = LOWERINGS.get(f"{name}.{call.overload}") or LOWERINGS.get(name)
    if lowering is not None:
        return lowering(*positional, **keywords)
    if name not in _UNARY and name not in _LAYERS:
        parts = decomposed.parts_of(call)
        if parts is not None:
            return decomposed.replay(parts, call, lower)
    operator = getattr(torch.ops.aten, name)
    first, *rest = map(_as_floats, positional)
    if name in _UNARY:
        return arithmetic.flat(lambda x: operator(x, *rest, **keywords), first)
    return operator(first, *rest, **keywords)


def _dtype(value: Any) -> Any:
    return getattr(value, "dtype", torch.float32)


def _dtype_in(values: Any) -> Any:
    """The dtype of the only tensor in a list."""
    tensors = [each for each in values if each is not None]
    return tensors[0].dtype if len(tensors) == 1 else None


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_complex(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_complex, value))
    return complex_numbers.is_complex(value)


def _as_floats(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and not value.dtype.is_floating_point:
        return as_float(value)
    return value
