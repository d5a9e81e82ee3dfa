"""Conversion between NumPy arrays and torch tensors; it imports torch only if necessary.

A torch tensor exists only in a process that has imported torch. So ``sys.modules`` tells whether a
value can be a torch tensor, and inference on NumPy arrays never imports torch.
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
    """Return the NumPy dtype for the ``dtype`` of a :class:`~enginebay.TensorSpec`.

    Raises:
        MissingDependencyError: The dtype (``bfloat16``, a float8 …) requires the package
            ``ml_dtypes``, which is not installed.
        InputError: The dtype is unknown.

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
                f"dtype '{name}' requires the package ml_dtypes, which is not installed",
                hint="pip install ml_dtypes",
            ) from err
        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype
    try:
        return np.dtype(name)
    except TypeError as err:
        raise InputError(f"unknown dtype '{name}'") from err


def is_torch(value: object) -> TypeGuard[torch.Tensor]:
    """Return True for a torch tensor; imports nothing."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_text(array: Any) -> bool:
    """Return True for an array of objects that are all texts."""
    return array.dtype == object and all(isinstance(value, str) for value in array.flat)


def to_numpy(value: Array) -> NumpyArray:
    """Return a value as a NumPy array on the host, which shares the value's memory if possible.

    An array of texts becomes an array of objects.

    Args:
        value: A torch tensor of any device, dtype and strides, or anything that
            ``numpy.asarray`` accepts.

    Example:
        >>> to_numpy([1.0, 2.0]).shape
        (2,)

    Raises:
        InputError: The value cannot be an array (a ragged list, a sparse tensor), or has masked
            elements.
    """
    # np.asarray() would drop the mask and pass on the values under it.
    if np.ma.is_masked(value):
        raise InputError("the array has masked elements", hint="pass array.filled(VALUE)")
    try:
        array = _host_array(value) if is_torch(value) else np.asarray(value)
        # Engines return texts as objects, and the length of the longest text is no dtype.
        return array.astype(object) if array.dtype.kind in "UT" else array
    except (TypeError, ValueError, RuntimeError) as err:
        kind = type(value).__name__
        raise InputError(
            f"a {kind} cannot be converted to a NumPy array: {first_line(err)}"
        ) from err


def _host_array(value: torch.Tensor) -> NumpyArray:
    import torch

    tensor = value.detach()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    if tensor.is_conj() or tensor.is_neg():  # numpy() refuses lazy conjugation and negation
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        # torch cannot convert bfloat16 to NumPy, so its 16 bits are reinterpreted as ml_dtypes'.
        return tensor.contiguous().view(torch.uint16).numpy().view(numpy_dtype("bfloat16"))
    return tensor.numpy()


def host_view(value: Any) -> NumpyArray | None:
    """Return an array that shares the memory of a torch tensor, if no conversion is necessary.

    Returns:
        The array; None for a value that :func:`to_numpy` has to convert: a tensor on another
        device, in bfloat16, or with a gradient.
    """
    # Not is_torch(): a subclass of Tensor may override its operators.
    torch = sys.modules.get("torch")
    if torch is None or value.__class__ is not torch.Tensor:
        return None
    try:
        array: NumpyArray = value.numpy()
    except (TypeError, RuntimeError):
        return None
    return array


def host_tensor(array: NumpyArray) -> Any:
    """Return a torch tensor on the host that shares the array's memory; texts stay an array."""
    import torch

    try:
        return torch.from_numpy(array)
    except TypeError:
        array = np.asarray(array)
        if array.dtype == object:
            return array  # torch has no texts
        if array.dtype.name != "bfloat16":
            return torch.from_numpy(array)  # a number without dimensions is no array
        # torch does not know ml_dtypes' bfloat16, but its own has the same bits.
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)


def to_torch(array: NumpyArray, device: torch.device | None = None) -> torch.Tensor:
    """Return the array as a torch tensor on ``device``; on the CPU, both share their memory."""
    tensor: torch.Tensor = host_tensor(array)
    is_here = device is None or device.type == "cpu" or not is_torch(tensor)
    return tensor if is_here else tensor.to(device)


def to_device(value: Array, device: torch.device) -> torch.Tensor:
    """Return the value as a torch tensor on ``device``, detached from autograd."""
    return value.detach().to(device) if is_torch(value) else to_torch(to_numpy(value), device)
