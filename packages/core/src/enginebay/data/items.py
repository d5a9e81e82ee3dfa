"""Items of a data set: built from raw values, checked, and hashed."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from enginebay.errors import InputError
from enginebay.tensors import is_text, to_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay.tensors import Array, NumpyArray

#: The key of the target in files and dicts.
TARGET = "target"


class Item(NamedTuple):
    """One item of a data set.

    Attributes:
        number: The item's index in the source, from 0.
        inputs: Input name → array.
        target: The value that a metric compares the outputs with; None if there is no target.
    """

    number: int
    inputs: dict[str, NumpyArray]
    target: Any = None


def build_item(
    number: int, raw: object, names: Sequence[str] | None, unused: frozenset[str]
) -> Item:
    """Return an item, built from a value that a data source yielded.

    The value is a dict of inputs, a pair of inputs and target, or arrays without names.

    Raises:
        InputError: The number of inputs is wrong, or an input is not an array of numbers or texts.
    """
    inputs, target = raw, None
    if isinstance(raw, Item):  # the source is another data set
        inputs, target = raw.inputs.get("", raw.inputs), raw.target
    elif isinstance(raw, tuple | list) and len(raw) == 2:
        inputs, target = raw
    if isinstance(inputs, Mapping):
        named = {str(name): value for name, value in inputs.items()}
        if target is None and TARGET not in (names or ()):
            target = named.pop(TARGET, None)
    else:
        values = list(inputs) if isinstance(inputs, tuple | list) else [inputs]
        known = ["" if len(values) == 1 else str(n) for n in range(len(values))]
        if names is not None:
            known = [name for name in names if name not in unused]
        if target is None and len(values) == len(known) + 1:
            *values, target = values
        elif target is not None and len(values) == len(known) - 1:
            values, target = [*values, target], None  # a pair is all inputs of a model with two
        if len(values) != len(known):
            raise InputError(
                f"expected {len(known)} inputs ({', '.join(known)}), found {len(values)} arrays "
                "without names",
                hint="pass a dict of arrays by name, or a pair of inputs and a target",
            )
        named = dict(zip(known, values, strict=True))
    arrays = {
        name: _check_array(name, value) for name, value in named.items() if name not in unused
    }
    return Item(number, arrays, target)


def _check_array(name: str, value: Array) -> NumpyArray:
    array = to_numpy(value)
    if array.dtype.kind in "OS" and not is_text(array):
        raise InputError(f"input '{name}': expected numbers or texts, found dtype {array.dtype}")
    return array


def check_no_nan(inputs: Mapping[str, NumpyArray]) -> None:
    """Raise InputError if a floating-point input contains NaN."""
    for name, values in inputs.items():
        if values.dtype.kind == "f" and (is_nan := np.isnan(values)).any():
            position = [int(axis) for axis in np.argwhere(is_nan)[0]]
            raise InputError(f"input '{name}' contains NaN at {position}")


def compute_digest(inputs: Mapping[str, NumpyArray]) -> int:
    """Return a 64-bit digest of the inputs' names, dtypes, shapes and values."""
    digest = blake2b(digest_size=8)
    # Sorted, since an item may list its inputs in any order.
    for name in sorted(inputs):
        values = np.ascontiguousarray(inputs[name])
        if values.dtype == object:
            values = values.astype(str)  # the bytes of objects are addresses
        digest.update(f"{name}:{values.dtype.str}:{values.shape}".encode())
        if values.size:
            digest.update(values.reshape(-1).view(np.uint8).data)
    return int.from_bytes(digest.digest(), "little")
