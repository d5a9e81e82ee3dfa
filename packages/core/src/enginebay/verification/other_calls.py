"""Trial of other calls with the same values, which must not change an engine's outputs.

An engine may be right for the calls of a verdict, and wrong in use: it reads memory in order, keeps
the result of an array by its address, or works in the thread that loaded it only.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from enginebay.errors import EnginebayError, InferenceError
from enginebay.inference import coarseness
from enginebay.tensors import Sample, equal_arrays, is_torch, to_numpy, to_torch
from enginebay.verification.comparison import compare_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from enginebay.inference import Wrapper
    from enginebay.tensors import Array, NumpyArray

    Arrays = Mapping[str, NumpyArray]


def run_checked(wrapper: Wrapper, inputs: Mapping[str, Array]) -> dict[str, NumpyArray]:
    """Run the engine, and return its outputs as NumPy arrays.

    Raise InferenceError if an output has another type than the inputs (NumPy array or torch
    tensor), or if the engine has changed an input.
    """
    before = {name: to_numpy(value).tobytes() for name, value in inputs.items()}
    outputs = wrapper(inputs)
    tensors = any(map(is_torch, inputs.values()))
    for name, value in outputs.items():
        if not (is_torch(value) if tensors else isinstance(value, np.ndarray | np.generic)):
            expected = "torch tensor" if tensors else "NumPy array"
            raise InferenceError(
                f"{wrapper.receipt.engine} returned the wrong type for '{name}': expected a "
                f"{expected}, found a {type(value).__name__}",
                hint=wrapper.fault_hint,
            )
    for name, value in inputs.items():
        if to_numpy(value).tobytes() != before[name]:
            message = f"{wrapper.receipt.engine} writes into its input '{name}'"
            raise InferenceError(message, hint=wrapper.fault_hint)
    return {name: to_numpy(value) for name, value in outputs.items()}


def check_other_calls(wrapper: Wrapper, runs: Sequence[Sample]) -> None:
    """Raise InferenceError if the engine returns something else for the same values.

    Args:
        wrapper: The engine.
        runs: The inputs of the runs of a verdict, the example first, with the engine's outputs.
    """
    first = runs[0]
    # Compared with its own outputs an engine is exact, even in 8 bits.
    precision = min(wrapper.receipt.precision, "bf16", key=coarseness)
    for form, call in _other_calls(wrapper, runs):
        try:
            found = call()
        except EnginebayError as err:
            raise InferenceError(
                f"with {form}: {err}", hint=err.hint or wrapper.fault_hint
            ) from err
        difference = _describe_difference(first.outputs, found, precision)
        # An engine whose outputs change from run to run is a matter for the verdict.
        if difference and not _describe_difference(
            first.outputs, run_checked(wrapper, first.inputs), precision
        ):
            raise InferenceError(
                f"with {form}, the engine returns different outputs: {difference}",
                hint=wrapper.fault_hint,
            )


def _other_calls(
    wrapper: Wrapper, runs: Sequence[Sample]
) -> Iterator[tuple[str, Callable[[], dict[str, NumpyArray]]]]:
    """Yield descriptions of other calls with the values of the first run, and the calls."""
    inputs = runs[0].inputs
    strided = {name: _make_strided(array) for name, array in inputs.items()}
    yield "strided, read-only arrays of the same values", lambda: run_checked(wrapper, strided)
    if other := _find_like(runs):
        yield "arrays that held other values before", lambda: _run_refilled(wrapper, other, inputs)
    yield "the same values in another thread", lambda: _run_in_thread(wrapper, inputs)
    device = wrapper.native_device
    if device and find_spec("torch"):
        import torch

        if getattr(torch, device).is_available():
            tensors = {n: to_torch(a.copy(), torch.device(device)) for n, a in inputs.items()}
            form = f"torch tensors on {device} of the same values"
            yield form, lambda: run_checked(wrapper, tensors)


def _find_like(runs: Sequence[Sample]) -> Arrays | None:
    """Return the inputs of a run with the shapes of the first one, but with other outputs."""
    first, *others = runs
    shapes = {name: array.shape for name, array in first.inputs.items()}
    for inputs, outputs, _ in others:
        same_shapes = shapes == {name: array.shape for name, array in inputs.items()}
        if same_shapes and not equal_arrays(outputs, first.outputs):
            return inputs
    return None


def _run_refilled(wrapper: Wrapper, before: Arrays, inputs: Arrays) -> dict[str, NumpyArray]:
    """Run the engine on arrays with other values, fill the same arrays, and run it again."""
    arrays = {name: array.copy() for name, array in before.items()}
    run_checked(wrapper, arrays)
    for name, array in arrays.items():
        array[...] = inputs[name]
    return run_checked(wrapper, arrays)


def _run_in_thread(wrapper: Wrapper, inputs: Arrays) -> dict[str, NumpyArray]:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run_checked, wrapper, inputs).result()


def _make_strided(array: NumpyArray) -> NumpyArray:
    """Return a read-only copy with the axes in reverse order in memory, and gaps between values."""
    # An engine that reads the memory in order, regardless of the strides, gets wrong values.
    view = np.zeros((*array.shape[::-1], 2), array.dtype)[..., 0].T
    view[...] = array
    view.flags.writeable = False
    return view


def _describe_difference(expected: Arrays, found: Arrays, precision: str) -> str:
    outputs = compare_outputs(expected, found, precision=precision)
    return next((output.describe() for output in outputs if not output.passed), "")
