"""NumPy arrays and torch tensors, told apart and turned into each other without importing torch.

Nobody can hold a torch tensor in a process that never imported torch, so ``sys.modules`` answers
the question, and a NumPy-only process stays one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from enginebay.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    import torch

    from enginebay.tensors.spec import Array

#: A NumPy array of any dtype.
NumpyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a :class:`~enginebay.tensors.spec.TensorSpec`'s name.

    Raises:
        MissingDependencyError: ``bfloat16`` or a float8 is asked for without ``ml_dtypes``,
            the package that teaches them to NumPy.
        InputError: There is no such dtype.

    Example:
        >>> numpy_dtype("int64")
        dtype('int64')
    """
    if name == "string":
        return np.dtype(object)
    if name.startswith(("bfloat", "float8", "float4", "int4", "uint4", "int2", "uint2")):
        try:
            import ml_dtypes
        except ImportError as err:
            raise MissingDependencyError(
                f"dtype '{name}' needs the package ml_dtypes, which is not installed",
                hint="pip install ml_dtypes",
            ) from err
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found
    try:
        return np.dtype(name)
    except TypeError as err:
        raise InputError(f"there is no dtype '{name}'") from err


def is_torch(value: object) -> TypeGuard[torch.Tensor]:
    """True for a torch tensor; imports nothing."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def to_numpy(value: Array) -> NumpyArray:
    """The same values as a NumPy array on the host, sharing memory where that is possible.

    Args:
        value: A torch tensor of any device, dtype and strides, or anything NumPy reads.

    Example:
        >>> to_numpy([1.0, 2.0]).shape
        (2,)
    """
    if not is_torch(value):
        return np.asarray(value)
    import torch

    tensor = value.detach()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        # torch hands no bfloat16 to NumPy; the same 16 bits are read under ml_dtypes' name.
        return tensor.contiguous().view(torch.uint16).numpy().view(numpy_dtype("bfloat16"))
    return tensor.numpy()


def host_view(value: object) -> NumpyArray | None:
    """The array that shares the memory of a plain torch tensor on the host; None for all else.

    None for what :func:`to_numpy` has to convert: another device, bfloat16, a gradient's part.
    """
    torch = sys.modules.get("torch")
    if torch is None or value.__class__ is not torch.Tensor:
        return None
    try:
        return value.numpy()  # type: ignore[attr-defined, no-any-return]  # it is a tensor
    except (TypeError, RuntimeError):
        return None


def host_tensor(array: NumpyArray) -> torch.Tensor:
    """A torch tensor on the host that shares the array's memory."""
    import torch

    array = np.asarray(array)
    try:
        return torch.from_numpy(array)
    except TypeError:
        if array.dtype.name != "bfloat16":
            raise
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)


def to_torch(array: NumpyArray, device: torch.device) -> torch.Tensor:
    """A torch tensor on ``device`` with the array's values; shares memory on the CPU."""
    tensor = host_tensor(array)
    return tensor if device.type == "cpu" else tensor.to(device)


def to_device(value: Array, device: torch.device) -> torch.Tensor:
    """The value as a torch tensor on ``device``; the same tensor where it is one already."""
    return value.detach().to(device) if is_torch(value) else to_torch(to_numpy(value), device)
