"""Tensor specs: names, dtypes and shapes, independent of any framework and file format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import torch

#: The tensors of callers: a NumPy array or a torch tensor.
Array: TypeAlias = "np.ndarray[Any, Any] | torch.Tensor"


class TensorSpec(msgspec.Struct, frozen=True):
    """The name, dtype and shape of one input or output of a model.

    Attributes:
        name: The name that callers use; the engine may use another name.
        dtype: The NumPy name: ``float32``, ``float16``, ``bfloat16``, ``int64``, ``bool`` …
        dims: One entry per dimension: an ``int`` for a fixed size, a name for a dynamic size.
            Dimensions with equal names have equal sizes. None if the rank is unknown.

    Example:
        >>> TensorSpec("x", "float32", ("batch", 3, 224, 224)).describe()
        'x float32[batch, 3, 224, 224]'
    """

    name: str
    dtype: str
    dims: tuple[int | str, ...] | None

    @property
    def is_static(self) -> bool:
        """True if every dimension has a fixed size."""
        return self.dims is not None and all(isinstance(dim, int) for dim in self.dims)

    def describe(self) -> str:
        """Return the spec as one line for messages."""
        dims = "unknown rank" if self.dims is None else ", ".join(map(str, self.dims))
        return f"{self.name} {self.dtype}[{dims}]"


def dtype_name(tensor: torch.Tensor) -> str:
    """Return the NumPy name of a torch tensor's dtype.

    Example:
        >>> import torch
        >>> dtype_name(torch.zeros(1, dtype=torch.bfloat16))
        'bfloat16'
    """
    return str(tensor.dtype).removeprefix("torch.")


def specs(tensors: Mapping[str, torch.Tensor]) -> tuple[TensorSpec, ...]:
    """Return the specs of torch tensors, with fixed sizes."""
    return tuple(TensorSpec(name, dtype_name(t), tuple(t.shape)) for name, t in tensors.items())
