"""Run an engine on recorded inputs in a child process, where a crash harms nobody."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from enginebay.artifact import LoadRequest  # noqa: TC001  # the child reads run_here's annotations
from enginebay.errors import ChildCrashedError, ChildTimeoutError, ConversionError
from enginebay.inference import Receipt
from enginebay.tensors import Sample, load_samples, save_samples
from enginebay.verification.input_forms import check_input_forms, run_unchanged

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
        given = (_RUN, request, samples, found)
        receipt = call(*given, timeout=timeout, result_type=Receipt, subject=_engine(request))
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


def run_here(request: LoadRequest, samples: Path, found: Path) -> Receipt:
    """Load and run the engine in this process, and write the outputs to ``found``."""
    with request.load() as wrapper:
        given = load_samples(samples)
        outputs = [run_unchanged(wrapper, sample.inputs) for sample in given]
        save_samples(found, [Sample({}, arrays) for arrays in outputs])
        if given:
            check_input_forms(wrapper, given[0].inputs, outputs[0])
        return wrapper.receipt
