"""The names, dtypes and shapes of tensors, in words that every framework and file shares."""

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
    """One input or output of a model.

    Attributes:
        name: The name that callers use, whatever the engine calls its blob.
        dtype: The NumPy name: ``float32``, ``float16``, ``bfloat16``, ``int64``, ``bool`` …
        dims: One entry a dimension: an ``int`` where it is fixed, a name where it is not.
            Equal names mean equal sizes. None where not even the rank is known.

    Example:
        >>> TensorSpec("x", "float32", ("batch", 3, 224, 224)).describe()
        'x float32[batch, 3, 224, 224]'
    """

    name: str
    dtype: str
    dims: tuple[int | str, ...] | None

    @property
    def is_static(self) -> bool:
        """True where every dimension is a number."""
        return self.dims is not None and all(isinstance(dim, int) for dim in self.dims)

    def describe(self) -> str:
        """Write the spec in one line, for messages."""
        dims = "unknown rank" if self.dims is None else ", ".join(map(str, self.dims))
        return f"{self.name} {self.dtype}[{dims}]"


def dtype_name(tensor: torch.Tensor) -> str:
    """Return NumPy's name of a tensor's dtype.

    Example:
        >>> import torch
        >>> dtype_name(torch.zeros(1, dtype=torch.bfloat16))
        'bfloat16'
    """
    return str(tensor.dtype).removeprefix("torch.")


def specs(tensors: Mapping[str, torch.Tensor]) -> tuple[TensorSpec, ...]:
    """Return the names, dtypes and sizes of tensors."""
    return tuple(TensorSpec(name, dtype_name(t), tuple(t.shape)) for name, t in tensors.items())
