"""Trial runs of an engine on recorded inputs, in a child process because engines may crash."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from enginebay.artifact import LoadRequest  # noqa: TC001  # the child decodes it by annotation
from enginebay.errors import (
    ChildCrashedError,
    EnginebayError,
    InferenceError,
)
from enginebay.inference import Receipt, coarseness
from enginebay.tensors import Sample, is_torch, load_samples, save_samples, to_numpy, to_torch
from enginebay.verification.comparison import compare_outputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from enginebay.inference import Wrapper
    from enginebay.tensors import Array, NumpyArray

    Arrays = Mapping[str, NumpyArray]

#: The function that is called in the child process.
_RUN = "enginebay.verification.engine_trial:run_in_child"


def run_trial(
    request: LoadRequest, samples: Sequence[Sample], *, timeout: float
) -> tuple[list[dict[str, NumpyArray]], Receipt]:
    """Load an engine in a child process, and run the engine on recorded samples.

    Args:
        request: The engine to load.
        samples: The samples whose inputs are run; the engine is only loaded without samples. The
            first sample runs again with the same values in other forms: as strided arrays, and as
            torch tensors on a device.
        timeout: Seconds that loading and all runs may take together.

    Returns:
        The outputs of each sample, and the engine's receipt.

    Raises:
        ChildCrashedError: The engine crashed the child process.
        ChildTimeoutError: The engine did not finish in time.
        EnginebayError: Any error of the backend.
    """
    from enginebay.isolation import call

    with TemporaryDirectory(prefix="enginebay-trial-") as folder:
        inputs, outputs = Path(folder) / "samples.npz", Path(folder) / "found.npz"
        save_samples(inputs, samples)

        def run_child(*, non_finite: bool) -> Receipt:
            return call(
                _RUN,
                request,
                inputs,
                outputs,
                non_finite,
                timeout=timeout,
                result_type=Receipt,
                subject=_describe_engine(request),
            )

        try:
            receipt = run_child(non_finite=True)
        except ChildCrashedError:
            # NaN and infinity may have caused the crash, which must not fail the engine.
            if not any(sample.kind == "non_finite" for sample in samples):
                raise
            receipt = run_child(non_finite=False)
        return [sample.outputs for sample in load_samples(outputs)], receipt


def _describe_engine(request: LoadRequest) -> str:
    if request.built_for is not None:
        return "the engine that runs the graph"
    return f"the engine of backend '{request.backend}'"


def run_in_child(
    request: LoadRequest, samples: Path, output_path: Path, non_finite: bool
) -> Receipt:
    """Run the engine on recorded samples and save the outputs; called in a child process.

    For a sample with NaN and infinity, no outputs are saved if ``non_finite`` is False or the
    engine raises.
    """
    with request.load() as wrapper:
        recorded = load_samples(samples)
        results = []
        for inputs, _, kind in recorded:
            if kind != "non_finite":
                results.append(Sample({}, _run_checked(wrapper, inputs)))
                continue
            # If the engine fails, the sample stays without outputs.
            results.append(Sample(inputs, {}))
            with suppress(EnginebayError):
                results[-1].outputs.update(wrapper(inputs) if non_finite else {})
        save_samples(output_path, results)
        if recorded:
            _check_input_forms(wrapper, recorded[0].inputs, results[0].outputs)
        return wrapper.receipt


def _run_checked(wrapper: Wrapper, inputs: Mapping[str, Array]) -> dict[str, NumpyArray]:
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


def _check_input_forms(wrapper: Wrapper, inputs: Arrays, outputs: Arrays) -> None:
    """Raise InferenceError if strided arrays or torch tensors change the engine's outputs."""
    # Compared with its own outputs an engine is exact, even in 8 bits.
    precision = min(wrapper.receipt.precision, "bf16", key=coarseness)
    for form, values in _other_input_forms(inputs, wrapper.native_device):
        try:
            found = _run_checked(wrapper, values)
        except EnginebayError as err:
            raise InferenceError(
                f"with {form}: {err}", hint=err.hint or wrapper.fault_hint
            ) from err
        difference = _describe_difference(outputs, found, precision)
        # An engine whose outputs change from run to run is a matter for the verdict.
        if difference and not _describe_difference(
            outputs, _run_checked(wrapper, inputs), precision
        ):
            raise InferenceError(
                f"with {form}, the engine returns different outputs: {difference}",
                hint=wrapper.fault_hint,
            )


def _other_input_forms(
    inputs: Arrays, device: str | None
) -> Iterator[tuple[str, Mapping[str, Array]]]:
    strided = {name: _make_strided(array) for name, array in inputs.items()}
    yield "strided, read-only arrays of the same values", strided
    if device and find_spec("torch"):
        import torch

        if getattr(torch, device).is_available():
            tensors = {n: to_torch(a.copy(), torch.device(device)) for n, a in inputs.items()}
            yield f"torch tensors on {device} of the same values", tensors


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
