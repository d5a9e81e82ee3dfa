"""The same inputs in other forms: an engine must neither depend on their memory nor write into it.

Samples are read from a file, and so are contiguous arrays. Callers also pass transposed images,
slices, read-only buffers and, where an engine takes them as they are, torch tensors on its device.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.errors import EnginebayError, InferenceError
from enginebay.tensors import to_numpy, to_torch
from enginebay.verification.comparison import compare_outputs
from enginebay.verification.tolerance import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from enginebay.inference import Wrapper
    from enginebay.tensors import NumpyArray

    Arrays = Mapping[str, NumpyArray]

_HINT = "it is a fault of the backend: report it to its authors"


def run_unchanged(wrapper: Wrapper, inputs: Mapping[str, Any]) -> dict[str, NumpyArray]:
    """Run an engine, and return its outputs as NumPy arrays.

    Raises:
        InferenceError: It wrote into an input.
    """
    before = {name: to_numpy(value).tobytes() for name, value in inputs.items()}
    outputs = wrapper(inputs)
    for name, value in inputs.items():
        if to_numpy(value).tobytes() != before[name]:
            engine = wrapper.receipt.engine
            raise InferenceError(f"{engine} writes into its input '{name}'", hint=_HINT)
    return {name: to_numpy(value) for name, value in outputs.items()}


def check_input_forms(wrapper: Wrapper, inputs: Arrays, outputs: Arrays) -> None:
    """Run an engine once more on the same values in each other form that it must take.

    Args:
        wrapper: The engine.
        inputs: Inputs that it has been run with.
        outputs: What it gave for them.

    Raises:
        InferenceError: It fails on them, writes into them, or gives something else for them. Not
            where it gives something else each time.
    """
    precision = wrapper.receipt.precision
    precision = precision if precision in ROUNDING else "bf16"  # beside itself an engine is exact
    for form, values in _other_forms(wrapper, inputs):
        sys.stdout.write(f"once more, on {form}\n")  # the last line where the engine crashes
        try:
            found = run_unchanged(wrapper, values)
        except EnginebayError as err:
            raise InferenceError(f"given {form}: {err}", hint=err.hint or _HINT) from err
        if wrong := _difference(outputs, found, precision):
            again = run_unchanged(wrapper, inputs)
            if not _difference(outputs, again, precision):
                raise InferenceError(f"given {form}, the engine is wrong: {wrong}", hint=_HINT)


def _other_forms(wrapper: Wrapper, inputs: Arrays) -> Iterator[tuple[str, dict[str, Any]]]:
    strided = {name: _strided(array) for name, array in inputs.items()}
    yield "strided, read-only arrays of the same values", strided
    device = wrapper.native_device
    if device and find_spec("torch"):
        import torch

        if getattr(torch, device).is_available():
            tensors = {n: to_torch(a.copy(), torch.device(device)) for n, a in inputs.items()}
            yield f"torch tensors on {device} of the same values", tensors


def _strided(array: NumpyArray) -> NumpyArray:
    """Return a read-only view of the same values whose axes are reversed in memory, with gaps."""
    view = np.zeros((*array.shape[::-1], 2), array.dtype)[..., 0].T
    view[...] = array
    view.flags.writeable = False
    return view


def _difference(expected: Arrays, found: Arrays, precision: str) -> str:
    compared = compare_outputs(expected, found, precision=precision)
    return next((one.describe() for one in compared if not one.passed), "")
