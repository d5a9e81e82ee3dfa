"""Integers that ncnn, which computes in float32, cannot hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

#: Operators whose numbers are values of tensors; others take sizes, axes and ends of slices.
_ARITHMETIC = frozenset(
    f"aten::{name}"
    for name in ("add", "sub", "rsub", "mul", "eq", "ne", "lt", "le", "gt", "ge", "where")
)


def refuse_large_integers(graph: Any, examples: Sequence[Tensor]) -> None:
    """Check the integer constants of a TorchScript graph.

    Args:
        graph: The graph.
        examples: Its inputs. Where none is an integer, a number stands beside floats.

    Raises:
        ConversionError: One is not exact in float32, and not the limit of its dtype, which stands
            for infinity.
    """
    numbers = any(not each.is_floating_point() for each in examples)
    for node in graph.findAllNodes("prim::Constant", recurse=True):
        for value in _integers(node, numbers=numbers):
            if int(np.float32(value)) != value:
                raise ConversionError(
                    f"the model holds the integer {value}, and ncnn computes in float32, which is "
                    "exact for integers up to 16777216",
                    hint=f"where the model computes with floats, write a float: {value}.0",
                )


def _integers(node: Any, *, numbers: bool) -> Iterator[int]:
    import torch

    value = node.output().toIValue()
    if isinstance(value, torch.Tensor) and value.dtype in (torch.int32, torch.int64):
        limits = torch.iinfo(value.dtype)
        large = value[(value.abs() > 2**24) & (value != limits.max) & (value != limits.min)]
        yield from large.tolist()
    elif type(value) is int and numbers and _is_computed_with(node):
        yield value


def _is_computed_with(node: Any) -> bool:
    return any(use.user.kind() in _ARITHMETIC for use in node.output().uses())
