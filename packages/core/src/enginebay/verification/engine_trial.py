"""Run an engine on recorded inputs in a child process, where a crash harms nobody."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from enginebay.artifact import LoadRequest  # noqa: TC001  # the child reads run_here's annotations
from enginebay.errors import ChildCrashedError, ChildTimeoutError, ConversionError, EnginebayError
from enginebay.inference import Receipt
from enginebay.tensors import Sample, load_samples, save_samples

if TYPE_CHECKING:
    from enginebay.tensors import NumpyArray

#: The functions that are called in the child process.
_RUN = "enginebay.verification.engine_trial:run_here"
_LOAD = "enginebay.verification.engine_trial:load_here"


def run_trial(
    request: LoadRequest, samples: Path, *, timeout: float
) -> tuple[list[dict[str, NumpyArray]], Receipt]:
    """Load an engine in a child process and run it.

    Args:
        request: The engine.
        samples: A file of recorded samples whose inputs are to be run.
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
        outputs = []
        for inputs, _, kind in load_samples(samples):
            if kind != "non_finite":
                outputs.append(Sample({}, wrapper(inputs)))
                continue
            outputs.append(Sample(inputs, {}))
            with suppress(EnginebayError):
                outputs[-1].outputs.update(wrapper(inputs) if non_finite else {})
        save_samples(found, outputs)
        return wrapper.receipt
