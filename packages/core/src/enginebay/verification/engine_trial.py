"""Trial runs of an engine on recorded inputs, in a child process because engines may crash."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from enginebay.artifact import LoadRequest  # noqa: TC001  # the child decodes it by annotation
from enginebay.errors import ChildCrashedError, EnginebayError
from enginebay.inference import Receipt
from enginebay.tensors import Sample, load_samples, save_samples
from enginebay.verification.other_calls import check_other_calls, run_again, run_checked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.tensors import NumpyArray

    Arrays = Mapping[str, NumpyArray]

#: An engine that loads in less than this is loaded a second time. The import of the engine's
#: library counts too.
_QUICK_LOADING_SECONDS = 3.0

#: Bytes of files up to which it is loaded a second time: both engines hold their weights then.
_SMALL_ENGINE = 2**28

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
            # Extreme values may have caused the crash, which must not fail the engine.
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

    For a sample of extreme values, no outputs are saved if ``non_finite`` is False or the
    engine raises.
    """
    start = time.monotonic()
    with request.load() as wrapper:
        size = sum((request.directory / file).stat().st_size for file in request.files)
        is_light = time.monotonic() - start < _QUICK_LOADING_SECONDS and size <= _SMALL_ENGINE
        recorded = load_samples(samples)
        results = []
        for inputs, _, kind in recorded:
            if kind != "non_finite":
                results.append(Sample({}, run_checked(wrapper, inputs)))
                continue
            # If the engine fails, the sample stays without outputs.
            results.append(Sample(inputs, {}))
            with suppress(EnginebayError):
                results[-1].outputs.update(wrapper(inputs) if non_finite else {})
        if recorded:
            runs = [
                run._replace(outputs=found.outputs)
                for run, found in zip(recorded, results, strict=True)
                if run.kind != "non_finite"
            ]
            if again := run_again(wrapper, runs[0]):
                # An engine whose outputs change from run to run is a matter for the verdict.
                results[0] = Sample({}, again)
            else:
                check_other_calls(wrapper, runs, request.load if is_light else None)
        save_samples(output_path, results)
        return wrapper.receipt
