"""The operands and results of the dialect's operators: blobs of ncnn, and constants.

A value that depends on the model's inputs is a :class:`Blob`. Its elements are float32, whatever
the dtype in the model is; true is 1.0 and false is 0.0. Every other value is a constant: a torch
tensor with the model's dtype. An operator that reads only constants is computed at once and is not
in the trace.
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
    """Raised for an operator of the model that ncnn's operators cannot express."""


@dataclass(frozen=True, eq=False)
class Blob:
    """A value that depends on the model's inputs.

    Attributes:
        tensor: The blob's value for the example inputs, a tensor that the trace records.
        trace: The trace that records the tensor; None if nothing is traced.
        dtype: The value's dtype in the model.
        reshape_source: The blob that was reshaped to this blob, if there is one.
        row_source: The blob that this blob repeats along the last dimension, if there is one.
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


#: A result of an operator.
Value = Blob | torch.Tensor

#: An operand: numbers of the model are not converted to tensors.
Operand = Value | float


def is_constant(value: object) -> bool:
    """Return True if a value is the same for every input of the model."""
    return not isinstance(value, Blob)


def emit_call(function: Callable[..., Tensor], *arguments: object) -> Value:
    """Return the result of a function of tensors.

    If an argument is a blob, the call is traced and the result is a blob.
    """
    blobs = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Blob)]
    if not blobs:
        return function(*arguments)
    tensors = pytree.tree_map_only(Blob, lambda blob: blob.tensor, arguments)
    with trace_into(blobs[0].trace):
        result = function(*tensors)
    return Blob(result, blobs[0].trace)


@contextmanager
def trace_into(trace: object) -> Iterator[None]:
    """Record torch's calls in the ``with`` block into ``trace``; if None, record nothing."""
    outer = _C._get_tracing_state()
    _C._set_tracing_state(trace)
    try:
        yield
    finally:
        _C._set_tracing_state(outer)


def as_float(value: Value) -> Value:
    """Return a constant as float32; return a blob, which is float32 already, unchanged."""
    return value if isinstance(value, Blob) else value.float()


def element_count(value: Value) -> int:
    """Return the number of elements of a value."""
    return math.prod(value.shape)
