"""``verify``: does an artifact still give the model's numbers, here and now?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from enginebay.artifact import SAMPLES_FILE, Artifact, load_request, use_artifact
from enginebay.errors import UsageError
from enginebay.tensors import Sample, save_samples, to_numpy
from enginebay.verification import judge

if TYPE_CHECKING:
    from enginebay.tensors import Array
    from enginebay.verdict import Verification


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
        artifact: The folder, or what :func:`enginebay.deploy` returned.
        inputs: The inputs by name; by default those that the artifact was verified with, else
            the model's own example.
        reference: What should come out: the outputs by name, or the PyTorch model (an
            ``nn.Module``, or text that names one as on the command line); by default the outputs
            that are recorded in the artifact, which needs no torch.
        rtol: Replaces the relative tolerance.
        atol: Replaces the absolute tolerance.
        timeout: Seconds that loading and running the engine may take.

    Returns:
        The verdict with its figures; a mismatch is returned, not raised.

    Raises:
        ArtifactError: The artifact is damaged, or bound to another engine or device.
        UsageError: There are inputs without a reference, or nothing is recorded.
    """

    def compare(opened: Artifact) -> Verification:
        request = load_request(opened)
        samples, against = _samples(opened, inputs, reference)
        with TemporaryDirectory(prefix="enginebay-verify-") as folder:
            path = Path(folder) / SAMPLES_FILE
            save_samples(path, samples)
            found, _ = judge(request, path, against, rtol=rtol, atol=atol, timeout=timeout)
        return found

    return use_artifact(artifact, compare)


def _samples(
    opened: Artifact, inputs: Mapping[str, Array] | None, reference: Any
) -> tuple[list[Sample], str]:
    """The inputs with the outputs to compare with, and whose these are."""
    if inputs is None and reference is None:
        return _recorded(opened), _recorded_reference(opened)
    if reference is None:
        raise UsageError("there are inputs, but nothing to compare with", hint="pass a reference")
    given = [dict(inputs)] if inputs is not None else [s.inputs for s in opened.samples()]
    return _referenced(given, reference, opened)


def _recorded(artifact: Artifact) -> list[Sample]:
    samples = artifact.samples()
    if not samples or not all(sample.outputs for sample in samples):
        raise _nothing_recorded(artifact)
    return samples


def _nothing_recorded(artifact: Artifact) -> UsageError:
    return UsageError(
        f"'{artifact.path}' was made without a reference, so nothing is recorded in it",
        hint="name the model: enginebay verify ARTIFACT --model MODEL --input NAME=SHAPE",
    )


def _recorded_reference(artifact: Artifact) -> str:
    verification = artifact.manifest.verification
    against = verification.reference if verification else ""
    return f"the recorded outputs of {against}" if against else "the recorded outputs"


def _referenced(
    inputs: list[dict[str, Any]], reference: Any, artifact: Artifact
) -> tuple[list[Sample], str]:
    """The samples with the reference's outputs, and the reference's name in the verdict."""
    arrays = [{name: to_numpy(value) for name, value in one.items()} for one in inputs]
    if isinstance(reference, Mapping):
        if not arrays:
            raise _nothing_recorded(artifact)
        if len(arrays) != 1:
            raise UsageError(
                f"one set of outputs cannot be the reference of {len(arrays)} recorded samples",
                hint="pass the inputs that belong to it",
            )
        outputs = {name: to_numpy(value) for name, value in reference.items()}
        return [Sample(arrays[0], outputs)], "the outputs given"
    from enginebay.models import find_model, unchanged
    from enginebay.verification import reference_for, reference_model

    names = [spec.name for spec in artifact.inputs]
    output_names = [spec.name for spec in artifact.outputs]
    source = find_model(reference)
    with unchanged(source):
        model = reference_model(source, names, arrays[0] if arrays else None, output_names or None)
        runner = reference_for(model, artifact.backend)
        arrays = arrays or [{name: model.examples[name] for name in names or model.examples}]
        return [Sample(one, runner.outputs(one)) for one in arrays], runner.description
