"""Convert between NumPy arrays and torch tensors, and tell them apart without importing torch.

In a process that never imported torch there is no torch tensor, so a look at ``sys.modules`` is
enough, and inference with NumPy alone imports no torch.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from enginebay.errors import InputError, MissingDependencyError, first_line

if TYPE_CHECKING:
    import torch

    from enginebay.tensors.spec import Array

#: A NumPy array of any dtype.
NumpyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a name in a :class:`~enginebay.TensorSpec`.

    Raises:
        MissingDependencyError: It is ``bfloat16``, a float8 or the like, which NumPy knows only
            with the package ``ml_dtypes``, and that is not installed.
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
    """Return the values as a NumPy array on the host, sharing memory where that is possible.

    Args:
        value: A torch tensor of any device, dtype and strides, or anything NumPy reads.

    Example:
        >>> to_numpy([1.0, 2.0]).shape
        (2,)

    Raises:
        InputError: It has no such array (a ragged list, a sparse tensor), or has masked values.
    """
    if np.ma.is_masked(value):
        raise InputError("the array has masked values", hint="pass its .filled(VALUE)")
    try:
        return _host_array(value) if is_torch(value) else np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as err:
        kind = type(value).__name__
        raise InputError(f"a value of type {kind} is no array: {first_line(err)}") from err


def _host_array(value: torch.Tensor) -> NumpyArray:
    import torch

    tensor = value.detach()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        # torch cannot convert bfloat16 to NumPy; the same 16 bits are read under ml_dtypes' name.
        return tensor.contiguous().view(torch.uint16).numpy().view(numpy_dtype("bfloat16"))
    return tensor.numpy()


def host_view(value: Any) -> NumpyArray | None:
    """Return an array that shares the memory of a plain torch tensor on the host.

    None for everything that :func:`to_numpy` has to convert: a tensor on another device, in
    bfloat16, or with a gradient.
    """
    # Not is_torch: a subclass of Tensor may change what its operators do.
    torch = sys.modules.get("torch")
    if torch is None or value.__class__ is not torch.Tensor:
        return None
    try:
        array: NumpyArray = value.numpy()
    except (TypeError, RuntimeError):
        return None
    return array


def host_tensor(array: NumpyArray) -> torch.Tensor:
    """Return a torch tensor on the host that shares the array's memory."""
    import torch

    array = np.asarray(array)
    try:
        return torch.from_numpy(array)
    except TypeError:
        if array.dtype.name != "bfloat16":
            raise
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)


def to_torch(array: NumpyArray, device: torch.device | None = None) -> torch.Tensor:
    """Return a torch tensor on ``device`` with the array's values; shares memory on the CPU."""
    tensor = host_tensor(array)
    return tensor if device is None or device.type == "cpu" else tensor.to(device)


def to_device(value: Array, device: torch.device) -> torch.Tensor:
    """Return the value as a torch tensor on ``device``; the same tensor where it is one."""
    return value.detach().to(device) if is_torch(value) else to_torch(to_numpy(value), device)
