"""Normalisations, with a leading dimension of one where ncnn looks for a batch."""

# ruff: noqa: D103 - each lowering is documented by the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from enginebay_ncnn.lowering.arithmetic import flat, lower_add, lower_mean, lower_mul
from enginebay_ncnn.lowering.layout import reshape
from enginebay_ncnn.lowering.registry import is_constant, lowers, sizes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


@lowers("layer_norm")
def lower_layer_norm(
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Tensor:
    sizes = sizes_of(x)
    count = math.prod(shape)
    rows = reshape(x, (1, math.prod(sizes) // count, count))
    constant_affine = all(each is None or is_constant(each) for each in (weight, bias))
    if constant_affine:
        weight, bias = (each if each is None else each.reshape(count) for each in (weight, bias))
        if weight is not None and bias is None:  # pnnx knows both or neither
            bias = torch.zeros(count)
        return reshape(functional.layer_norm(rows, (count,), weight, bias, eps), sizes)
    result = reshape(functional.layer_norm(rows, (count,), None, None, eps), sizes)
    result = result if weight is None else lower_mul(result, weight)
    return result if bias is None else lower_add(result, bias)


@lowers("rms_norm")
def lower_rms_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    dims = list(range(x.ndim - len(shape), x.ndim))
    power = lower_mean(lower_mul(x, x), dims, True)
    small = 1.1920929e-07 if eps is None else eps
    result = lower_mul(x, flat(lambda t: (t + small).rsqrt(), power))
    return result if weight is None else lower_mul(result, weight)
