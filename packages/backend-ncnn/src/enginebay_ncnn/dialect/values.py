"""What the operators of a graph are written for: blobs of ncnn, and constants.

A value that depends on the inputs is a :class:`Blob`: float32, whatever its dtype is in the model;
true is 1.0 and false is 0.0. Every other value is a plain tensor, in the model's own dtype: what is
computed from constants alone is a constant, and nothing of it is traced.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

#: torch's stubs do not have its functions for a trace.
_C: Any = torch._C


class UnsupportedError(ConversionError):
    """Nothing here can express this with operators that ncnn has."""


@dataclass(frozen=True, eq=False)
class Blob:
    """A value that depends on the inputs.

    Attributes:
        tensor: Its numbers for the example, which the trace has recorded.
        trace: The trace; None outside of one.
        dtype: Its dtype in the model.
        reshape_of: The blob that it is a reshape of.
        rows_of: The blob whose last dimension, of size one, it repeats.
    """

    tensor: Tensor
    trace: Any = None
    dtype: torch.dtype = torch.float32
    reshape_of: Blob | None = None
    rows_of: Blob | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes, as numbers."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return self.tensor.ndim


#: What an operator takes and gives.
Value = Blob | torch.Tensor


def is_constant(value: Any) -> bool:
    """Return True if a value is the same for every input of the model."""
    return not isinstance(value, Blob)


def emit(function: Callable[..., Tensor], *arguments: Any) -> Value:
    """Run a function of tensors on blobs and constants, and record it where there is a blob."""
    blobs = [each for each in pytree.tree_leaves(arguments) if isinstance(each, Blob)]
    if not blobs:
        return function(*arguments)
    tensors = pytree.tree_map_only(Blob, lambda blob: blob.tensor, arguments)
    with tracing(blobs[0].trace):
        found = function(*tensors)
    return Blob(found, blobs[0].trace)


@contextmanager
def tracing(trace: Any) -> Iterator[None]:
    """Record into a trace inside the block; into none where it is None."""
    before = _C._get_tracing_state()
    _C._set_tracing_state(trace)
    try:
        yield
    finally:
        _C._set_tracing_state(before)


def as_float(value: Any) -> Any:
    """Return a constant as float32; blobs are."""
    if isinstance(value, Blob) or value.dtype is torch.float32:
        return value
    return value.float()


def count_of(value: Any) -> int:
    """Return the number of a value's elements."""
    return math.prod(value.shape)
