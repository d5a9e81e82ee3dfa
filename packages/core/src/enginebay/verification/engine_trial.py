"""Run an engine on recorded inputs in a child process, where a crash harms nobody."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.artifact import LoadRequest  # noqa: TC001  # the child reads run_here's annotations
from enginebay.errors import (
    ChildCrashedError,
    ChildTimeoutError,
    ConversionError,
    EnginebayError,
    InferenceError,
)
from enginebay.inference import Receipt, coarseness
from enginebay.tensors import Sample, is_torch, load_samples, save_samples, to_numpy, to_torch
from enginebay.verification.comparison import compare_outputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from enginebay.inference import Wrapper
    from enginebay.tensors import NumpyArray

    Arrays = Mapping[str, NumpyArray]

#: The functions that are called in the child process.
_RUN = "enginebay.verification.engine_trial:run_here"
_LOAD = "enginebay.verification.engine_trial:load_here"


def run_trial(
    request: LoadRequest, samples: Path, *, timeout: float
) -> tuple[list[dict[str, NumpyArray]], Receipt]:
    """Load an engine in a child process and run it.

    Args:
        request: The engine.
        samples: A file of recorded samples whose inputs are to be run; the first one's once more
            in every other form that a caller may pass.
        timeout: Seconds that loading and all runs may take together.

    Returns:
        The outputs of each sample, and what the engine says that it ran.

    Raises:
        ChildCrashedError: The engine took its process down.
        ChildTimeoutError: It did not finish in time.
        EnginebayError: Whatever the backend raised.
    """
    from enginebay.isolation import call

    with TemporaryDirectory(prefix="enginebay-trial-") as folder:
        found = Path(folder) / "found.npz"

        def run(*, non_finite: bool) -> Receipt:
            given = (_RUN, request, samples, found, non_finite)
            return call(*given, timeout=timeout, result_type=Receipt, subject=_engine(request))

        try:
            receipt = run(non_finite=True)
        except ChildCrashedError:
            if not any(sample.kind == "non_finite" for sample in load_samples(samples)):
                raise
            receipt = run(non_finite=False)
        return [sample.outputs for sample in load_samples(found)], receipt


def check_loads(request: LoadRequest, *, timeout: float) -> None:
    """Load an engine once in a child process: some write files that they cannot load themselves.

    Raises:
        ConversionError: Loading the files takes the process down, or does not end in time.
        EnginebayError: Whatever the backend raised.
    """
    from enginebay.isolation import call

    try:
        call(_LOAD, request, timeout=timeout, result_type=Receipt, subject=_engine(request))
    except (ChildCrashedError, ChildTimeoutError) as err:
        raise ConversionError(f"what was converted cannot be loaded: {err}") from err


def _engine(request: LoadRequest) -> str:
    if request.built_for is not None:
        return "the engine that runs the graph"
    return f"the engine of backend '{request.backend}'"


def load_here(request: LoadRequest) -> Receipt:
    """Load the engine in this process, and return what it says of itself."""
    with request.load() as wrapper:
        return wrapper.receipt


def run_here(request: LoadRequest, samples: Path, found: Path, non_finite: bool) -> Receipt:
    """Load and run the engine in this process, and write the outputs to ``found``.

    There are none for NaN and infinity, if these are left out or the engine refuses them.
    """
    with request.load() as wrapper:
        given = load_samples(samples)
        outputs = []
        for inputs, _, kind in given:
            if kind != "non_finite":
                outputs.append(Sample({}, _run_unchanged(wrapper, inputs)))
                continue
            outputs.append(Sample(inputs, {}))
            with suppress(EnginebayError):
                outputs[-1].outputs.update(wrapper(inputs) if non_finite else {})
        save_samples(found, outputs)
        if given:
            _check_forms(wrapper, given[0].inputs, outputs[0].outputs)
        return wrapper.receipt


def _run_unchanged(wrapper: Wrapper, inputs: Mapping[str, Any]) -> dict[str, NumpyArray]:
    """Run the engine, which must leave its inputs as they are, and give arrays for arrays."""
    before = {name: to_numpy(value).tobytes() for name, value in inputs.items()}
    outputs = wrapper(inputs)
    tensors = any(map(is_torch, inputs.values()))
    for name, value in outputs.items():
        if not (is_torch(value) if tensors else isinstance(value, np.ndarray | np.generic)):
            wanted = "torch tensor" if tensors else "NumPy array"
            message = f"{wrapper.receipt.engine} gives a {type(value).__name__} for '{name}'"
            raise InferenceError(f"{message}: wanted a {wanted}", hint=wrapper.fault_hint)
    for name, value in inputs.items():
        if to_numpy(value).tobytes() != before[name]:
            message = f"{wrapper.receipt.engine} writes into its input '{name}'"
            raise InferenceError(message, hint=wrapper.fault_hint)
    return {name: to_numpy(value) for name, value in outputs.items()}


def _check_forms(wrapper: Wrapper, inputs: Arrays, outputs: Arrays) -> None:
    """Run the engine once more on the same values in each other form that callers may pass."""
    # Beside itself an engine is exact, even one in 8 bits.
    precision = min(wrapper.receipt.precision, "bf16", key=coarseness)
    for form, values in _other_forms(inputs, wrapper.native_device):
        try:
            found = _run_unchanged(wrapper, values)
        except EnginebayError as err:
            raise InferenceError(
                f"given {form}: {err}", hint=err.hint or wrapper.fault_hint
            ) from err
        wrong = _difference(outputs, found, precision)
        # An engine that gives something else each time is left to the verdict.
        if wrong and not _difference(outputs, _run_unchanged(wrapper, inputs), precision):
            raise InferenceError(
                f"given {form}, the engine is wrong: {wrong}", hint=wrapper.fault_hint
            )


def _other_forms(inputs: Arrays, device: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    strided = {name: _strided(array) for name, array in inputs.items()}
    yield "strided, read-only arrays of the same values", strided
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
