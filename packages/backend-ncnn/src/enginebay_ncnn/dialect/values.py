"""The values that operators are written for: blobs of ncnn, and constants.

A value that depends on the inputs is a :class:`Blob`: float32, whatever its dtype is in the model;
true is 1.0 and false is 0.0. Every other value is a plain tensor in the model's own dtype. An
operator on constants alone is computed at once and is not in the trace.
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
    """ncnn's operators cannot express this."""


@dataclass(frozen=True, eq=False)
class Blob:
    """A value that depends on the inputs.

    Attributes:
        tensor: Its numbers for the example inputs, as the trace has recorded them.
        trace: The trace that records it; None if nothing is traced.
        dtype: Its dtype in the model.
        reshape_source: The blob that it is a reshape of, if any.
        row_source: The blob whose last dimension, of size one, it repeats, if any.
    """

    tensor: Tensor
    trace: Any = None
    dtype: torch.dtype = torch.float32
    reshape_source: Blob | None = None
    row_source: Blob | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.tensor.ndim


#: An input or output of an operator.
Value = Blob | torch.Tensor


def is_constant(value: Any) -> bool:
    """Return True if a value is the same for every input of the model."""
    return not isinstance(value, Blob)


def emit_call(function: Callable[..., Tensor], *arguments: Any) -> Value:
    """Call a function of tensors with blobs and constants; trace the call if there is a blob."""
    blobs = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Blob)]
    if not blobs:
        return function(*arguments)
    tensors = pytree.tree_map_only(Blob, lambda blob: blob.tensor, arguments)
    with trace_into(blobs[0].trace):
        result = function(*tensors)
    return Blob(result, blobs[0].trace)


@contextmanager
def trace_into(trace: Any) -> Iterator[None]:
    """Record calls into a trace inside the block; None records nothing."""
    outer = _C._get_tracing_state()
    _C._set_tracing_state(trace)
    try:
        yield
    finally:
        _C._set_tracing_state(outer)


def as_float(value: Any) -> Any:
    """Return a constant as float32; a blob is float32 already."""
    if isinstance(value, Blob) or value.dtype is torch.float32:
        return value
    return value.float()


def element_count(value: Any) -> int:
    """Return the number of a value's elements."""
    return math.prod(value.shape)
