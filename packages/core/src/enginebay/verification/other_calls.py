"""Trial of other calls with the same values, which must not change an engine's outputs.

An engine may be right for the calls of a verdict, and wrong in use: it reads memory in order, keeps
the result of an array by its address, works in the thread that loaded it only, or beside no other.
"""

from __future__ import annotations

import time
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

#: Seconds of processor time after which no other call is tried: 11 runs of a network that takes
#: half a second would add more to a deployment than its export takes.
_SECONDS = 2.0


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


def run_again(wrapper: Wrapper, run: Sample) -> dict[str, NumpyArray]:
    """Run an engine twice more; return the first outputs that differ from those of ``run``."""
    for _ in range(2):
        again = run_checked(wrapper, run.inputs)
        if _describe_difference(run.outputs, again, _own_precision(wrapper)):
            return again
    return {}


def _own_precision(wrapper: Wrapper) -> str:
    # Compared with its own outputs an engine is exact, even in 8 bits.
    return min(wrapper.receipt.precision, "bf16", key=coarseness)


def check_other_calls(
    wrapper: Wrapper, runs: Sequence[Sample], load: Callable[[], Wrapper] | None
) -> None:
    """Raise InferenceError if the engine returns something else for the same values.

    The calls of a slow engine end after some seconds, the likeliest fault first; the conformance
    tests have all of them.

    Args:
        wrapper: The engine.
        runs: The inputs of the runs of a verdict, the example first, with the engine's outputs.
        load: Loads the engine again; None if that takes too long, or too much memory.
    """
    first, precision = runs[0], _own_precision(wrapper)
    start = time.process_time()
    for form, call in _other_calls(wrapper, runs, load):
        if time.process_time() - start > _SECONDS:
            return
        try:
            found = call()
        except EnginebayError as err:
            raise InferenceError(
                f"with {form}: {err}", hint=err.hint or wrapper.fault_hint
            ) from err
        if difference := _describe_difference(first.outputs, found, precision):
            raise InferenceError(
                f"with {form}, the engine returns different outputs: {difference}",
                hint=wrapper.fault_hint,
            )


def _other_calls(
    wrapper: Wrapper, runs: Sequence[Sample], load: Callable[[], Wrapper] | None
) -> Iterator[tuple[str, Callable[[], Arrays]]]:
    """Yield descriptions of other calls with the values of the first run, and the calls."""
    inputs = runs[0].inputs
    strided = {name: _make_strided(array) for name, array in inputs.items()}
    yield "strided, read-only arrays of the same values", lambda: run_checked(wrapper, strided)
    likes = _find_like(runs)
    if likes:
        yield (
            "arrays that held other values before",
            lambda: _run_refilled(wrapper, likes[0], inputs),
        )
    yield "the same values in another thread", lambda: _run_in_thread(wrapper, inputs)
    device = wrapper.native_device
    if device and find_spec("torch"):
        import torch

        if getattr(torch, device).is_available():
            tensors = {n: to_torch(a.copy(), torch.device(device)) for n, a in inputs.items()}
            form = f"torch tensors on {device} of the same values"
            yield form, lambda: run_checked(wrapper, tensors)
    if load is not None:
        # Small values before: an engine may take its range from what it sees first.
        small = min(likes or [inputs], key=_measure_size)
        yield (
            "the engine loaded a second time beside this one",
            lambda: _run_beside(wrapper, load, small, runs[0]),
        )


def _find_like(runs: Sequence[Sample]) -> list[Arrays]:
    """Return the inputs of the runs with the shapes of the first one, but with other outputs."""
    first, *others = runs
    shapes = {name: array.shape for name, array in first.inputs.items()}
    return [
        inputs
        for inputs, outputs, _ in others
        if shapes == {name: array.shape for name, array in inputs.items()}
        and not equal_arrays(outputs, first.outputs)
    ]


def _run_refilled(wrapper: Wrapper, before: Arrays, inputs: Arrays) -> dict[str, NumpyArray]:
    """Run the engine on arrays with other values, fill the same arrays, and run it again."""
    arrays = {name: array.copy() for name, array in before.items()}
    run_checked(wrapper, arrays)
    for name, array in arrays.items():
        array[...] = inputs[name]
    return run_checked(wrapper, arrays)


def _measure_size(inputs: Arrays) -> float:
    return sum(float(np.abs(x.astype(np.float64)).sum()) for x in inputs.values() if x.dtype != "O")


def _run_beside(
    wrapper: Wrapper, load: Callable[[], Wrapper], before: Arrays, run: Sample
) -> Arrays:
    """Call an engine and a second wrapper of it in turn, while the first one's outputs are held.

    Return the outputs that differ from those of ``run``, if there are any.
    """
    held = wrapper(run.inputs)
    with load() as second:
        run_checked(second, before)
        found = [run_checked(second, run.inputs), run_checked(wrapper, run.inputs)]
    found += [run_checked(wrapper, run.inputs), {n: to_numpy(y) for n, y in held.items()}]
    precision = _own_precision(wrapper)
    differing = (y for y in found if _describe_difference(run.outputs, y, precision))
    return next(differing, run.outputs)


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
