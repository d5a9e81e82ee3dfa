"""Does an artifact give the model's numbers? Asked of its engine in a child process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from enginebay.artifact import Artifact, Verification, open_artifact
from enginebay.errors import ChildCrashedError, ChildTimeoutError, UsageError
from enginebay.tensors import Sample, load_samples, save_samples, to_numpy
from enginebay.verification import FUNCTION, Trial, compare, run_trial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from enginebay.inference import Receipt
    from enginebay.tensors import Array, NumpyArray

#: Where an artifact keeps the inputs and outputs that it was verified with.
SAMPLES_FILE = "samples.npz"


def verify(
    artifact: str | Path | Artifact,
    inputs: Mapping[str, Array] | None = None,
    reference: Any = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float = 1800.0,
) -> Verification:
    """Compare an artifact with its model, here and now.

    Args:
        artifact: The folder, or what :func:`enginebay.deploy` answered.
        inputs: The inputs by name; by default those that the artifact was verified with.
        reference: What should come out: the outputs by name, or the PyTorch model (an
            ``nn.Module``, or text that names one as on the command line); by default the outputs
            that are recorded in the artifact, which needs no torch.
        rtol: Replaces the relative tolerance.
        atol: Replaces the absolute tolerance.
        timeout: Seconds that loading and running the engine may take.

    Returns:
        The verdict with its figures; a mismatch is answered, not raised.

    Raises:
        ArtifactError: The artifact is damaged.
        UsageError: There are inputs without a reference, or nothing is recorded.
    """
    opened = open_artifact(artifact)
    recorded = opened.path / SAMPLES_FILE
    if inputs is None and reference is None:
        samples, against = _recorded(recorded, outputs=True), _recorded_reference(opened)
    elif reference is None:
        raise UsageError("there are inputs, but nothing to compare with", hint="pass a reference")
    else:
        given = [dict(inputs)] if inputs is not None else [s.inputs for s in _recorded(recorded)]
        samples, against = _referenced(given, reference, opened.backend)
    with TemporaryDirectory(prefix="enginebay-verify-") as folder:
        path = Path(folder) / SAMPLES_FILE
        save_samples(path, samples)
        trial = Trial(
            backend=opened.backend,
            directory=opened.path,
            files=opened.files,
            params=opened.manifest.params,
            inputs=opened.inputs,
            outputs=opened.outputs,
            samples=path,
            parts=opened.manifest.parts,
        )
        verification, _ = judge(trial, samples, against, rtol=rtol, atol=atol, timeout=timeout)
    return verification


def judge(
    trial: Trial,
    samples: Sequence[Sample],
    reference: str,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float,
) -> tuple[Verification, Receipt | None]:
    """Run the engine and compare what it gives with the samples' outputs.

    Returns:
        The verdict, ``crashed`` where the engine took its process down or did not end in time,
        and the engine's receipt, None where it crashed.
    """
    try:
        found, receipt = run_trial(trial, timeout=timeout)
    except (ChildCrashedError, ChildTimeoutError) as err:
        return _crashed(trial, err, reference), None
    comparisons = [
        compare(sample.outputs, outputs, precision=receipt.precision, rtol=rtol, atol=atol)
        for sample, outputs in zip(samples, found, strict=True)
    ]
    verification = Verification.of(comparisons, reference=reference, precision=receipt.precision)
    return verification, receipt


def attempt(
    trial: Trial, why_no_reference: str, *, timeout: float
) -> tuple[Verification, Receipt | None]:
    """Run the engine where there is nothing to compare with: it must load, and it must answer.

    Returns:
        ``unverified`` or ``crashed``, and the engine's receipt, None where it crashed.
    """
    try:
        _, receipt = run_trial(trial, timeout=timeout)
    except (ChildCrashedError, ChildTimeoutError) as err:
        return _crashed(trial, err), None
    return Verification.unverified(why_no_reference), receipt


def _crashed(trial: Trial, err: Exception, reference: str = "") -> Verification:
    # The child process is called by its function, which means nothing to a user.
    reason = str(err).replace(f"'{FUNCTION}'", f"the engine of backend '{trial.backend}'")
    return Verification.crashed(reason, reference=reference)


def recorded_inputs(artifact: Artifact) -> dict[str, NumpyArray] | None:
    """The first inputs that an artifact was verified with, by name; None where it keeps none."""
    path = artifact.path / SAMPLES_FILE
    return load_samples(path)[0].inputs if path.is_file() else None


def _recorded(path: Path, *, outputs: bool = False) -> list[Sample]:
    samples = load_samples(path) if path.is_file() else []
    if not samples or (outputs and not all(sample.outputs for sample in samples)):
        raise UsageError(
            f"'{path.parent}' was made without a reference, so nothing is recorded in it",
            hint="name the model: enginebay verify ARTIFACT --model MODEL --input NAME=SHAPE",
        )
    return samples


def _recorded_reference(artifact: Artifact) -> str:
    verification = artifact.manifest.verification
    against = verification.reference if verification else ""
    return f"the recorded outputs of {against}" if against else "the recorded outputs"


def _referenced(
    inputs: list[dict[str, Any]], reference: Any, backend: str
) -> tuple[list[Sample], str]:
    """The samples with the reference's outputs, and what the reference is."""
    arrays = [{name: to_numpy(value) for name, value in one.items()} for one in inputs]
    if isinstance(reference, Mapping):
        if len(arrays) != 1:
            raise UsageError(
                f"one set of outputs cannot be the reference of {len(arrays)} recorded samples",
                hint="pass the inputs that belong to it",
            )
        outputs = {name: to_numpy(value) for name, value in reference.items()}
        return [Sample(arrays[0], outputs)], "the outputs given"
    from enginebay.verification import reference_for

    model = reference_for(reference, arrays[0], backend)
    samples = [Sample(one, model.outputs(one)) for one in arrays]
    return samples, model.description
