"""Run an engine on recorded inputs in a child process, where a crash harms nobody."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.artifact import Part
from enginebay.inference import Receipt
from enginebay.tensors import Sample, TensorSpec, load_samples, save_samples

if TYPE_CHECKING:
    from enginebay.tensors import NumpyArray


#: What is called in the child process.
FUNCTION = "enginebay.verification.trial:run_here"


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's files and the inputs to run them on.

    Attributes:
        backend: The backend that wrote the files.
        directory: Where they are.
        files: Their names, as ``to_backend`` answered them.
        params: The parameters they were built with.
        inputs: The model's inputs.
        outputs: The model's outputs.
        samples: A file of recorded samples whose inputs are to be run.
        strict: Refuse fallbacks.
        parts: The engines that the files belong to, where there are several.
    """

    backend: str
    directory: Path
    files: tuple[Path, ...]
    params: dict[str, Any]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    samples: Path
    strict: bool = False
    parts: tuple[Part, ...] = ()


def run_trial(trial: Trial, *, timeout: float) -> tuple[list[dict[str, NumpyArray]], Receipt]:
    """Run the trial in a child process.

    Args:
        trial: What to run.
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
        receipt = call(FUNCTION, trial, found, timeout=timeout, result_type=Receipt)
        return [sample.outputs for sample in load_samples(found)], receipt


def run_here(trial: Trial, found: Path) -> Receipt:
    """Run the trial in this process and write the outputs to ``found``."""
    from enginebay.artifact import load_parts
    from enginebay.backend import get_backend
    from enginebay.hooks import WrapperRequest

    backend = get_backend(trial.backend)
    request = WrapperRequest(
        directory=trial.directory,
        files=trial.files,
        params=backend.Params.from_mapping(trial.params),
        inputs=trial.inputs,
        outputs=trial.outputs,
        strict=trial.strict,
    )
    with load_parts(backend, request, trial.parts) as wrapper:
        outputs = [Sample({}, wrapper(sample.inputs)) for sample in load_samples(trial.samples)]
        save_samples(found, outputs)
        return wrapper.receipt
