"""The reference of ``verify``: outputs that are passed, recorded in the artifact, or computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.artifact import SAMPLES_FILE
from enginebay.data import DataSet
from enginebay.errors import ArtifactError, UsageError
from enginebay.inference import InputCheck
from enginebay.operations.backend import get_backend
from enginebay.tensors import Sample, to_numpy
from enginebay.verdict import EXAMPLE, ITEM, Basis
from enginebay.verification import RecordedReference

if TYPE_CHECKING:
    from contextlib import ExitStack

    from enginebay.artifact import Artifact
    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]


#: What an artifact's own outputs are called, before the name of the reference that they were of.
_RECORDED = "the recorded outputs"


def read_passed_samples(inputs: object) -> RecordedReference | None:
    """Return the samples in ``inputs`` if all items are samples with outputs; otherwise None."""
    if not isinstance(inputs, list | tuple) or not inputs:
        return None
    if not all(isinstance(item, Sample) and item.outputs for item in inputs):
        return None
    basis = Basis(labels=_label_samples(len(inputs)))
    return RecordedReference(description="the passed outputs", samples=tuple(inputs), basis=basis)


def input_sets(opened: Artifact, inputs: object) -> list[Arrays] | None:
    """Return the caller's sets of inputs as checked arrays; None without inputs."""
    if inputs is None:
        return None
    if isinstance(inputs, list | tuple | str | PathLike | DataSet):
        if isinstance(inputs, list | tuple):
            inputs = [item.inputs if isinstance(item, Sample) else item for item in inputs]
        return [item.inputs for item in DataSet.of(inputs).items(opened.inputs)]
    check = InputCheck(opened.inputs, opened.manifest.sizes)
    named = inputs if isinstance(inputs, Mapping) else check.bind_inputs(inputs)
    check.check_names(named)
    arrays = {name: to_numpy(value) for name, value in named.items()}
    check.check(arrays)
    return [arrays]


def find_reference(
    opened: Artifact,
    inputs: list[Arrays] | None,
    reference: object,
    precision: str,
    model_use: ExitStack,
) -> RecordedReference:
    """Return inputs with expected outputs.

    Args:
        opened: The artifact.
        inputs: The caller's sets of inputs; None for those that the artifact contains.
        reference: The expected outputs by name, or the model; None for the outputs that the
            artifact contains.
        precision: The coarsest precision that the engine may compute in.
        model_use: When this stack is closed, the model is as it was before.

    Raises:
        UsageError: There are no expected outputs, or not one set of inputs for passed outputs.
    """
    if reference is None:
        return _read_recorded(opened)
    if isinstance(reference, Mapping):
        return _pair_outputs(opened, inputs, reference)
    return _compute_outputs(opened, inputs, reference, precision, model_use)


def _read_recorded(opened: Artifact) -> RecordedReference:
    samples = opened.samples()
    if not samples or not all(sample.outputs for sample in samples):
        raise _no_reference_error(opened)
    verification = opened.manifest.verification
    against = verification.reference.removeprefix(f"{_RECORDED} of ") if verification else ""
    return RecordedReference(
        description=f"{_RECORDED} of {against}" if against else _RECORDED,
        samples=tuple(samples),
        basis=_check_labels(opened, recorded_basis(opened), len(samples)),
    )


def _pair_outputs(
    opened: Artifact, inputs: list[Arrays] | None, outputs: Mapping[str, Any]
) -> RecordedReference:
    """Return the passed outputs with their inputs: the caller's, or the artifact's example."""
    rows = _label_inputs(opened, inputs)
    if not rows:
        raise _no_reference_error(opened)
    if inputs is not None and len(inputs) != 1:
        raise UsageError(
            f"one set of outputs requires one set of inputs, found {len(inputs)} sets of inputs",
            hint="pass the model as the reference, or one set of inputs",
        )
    label, arrays = rows[0]  # outputs by name belong to the example
    sample = Sample(arrays, {name: to_numpy(value) for name, value in outputs.items()})
    return RecordedReference(
        description="the passed outputs", samples=(sample,), basis=Basis(labels=(label,))
    )


def _compute_outputs(
    opened: Artifact,
    inputs: list[Arrays] | None,
    reference: object,
    precision: str,
    model_use: ExitStack,
) -> RecordedReference:
    """Run the model on the inputs, and on probe inputs (generated, similar to the inputs)."""
    # Only a model as the reference requires torch.
    from enginebay.reference import ProbeSettings, reference_model, sample_model
    from enginebay.sources import find_model
    from enginebay.state import unchanged

    rows = _label_inputs(opened, inputs)
    names = [spec.name for spec in opened.inputs]
    output_names = [spec.name for spec in opened.outputs]
    source = find_model(reference)
    model_use.enter_context(unchanged(source))
    model = reference_model(source, names, rows[0][1] if rows else None, output_names or None)
    # An artifact that `convert` built contains no samples.
    rows = rows or [(EXAMPLE, {name: model.examples[name] for name in names or model.examples})]
    basis = recorded_basis(opened)
    calibrated = precision if precision in get_backend(opened.backend).info.calibrated else ""
    settings = ProbeSettings(domain=basis.domain, calibrated=calibrated)
    sampled = sample_model(model, opened.backend, rows, precision=precision, settings=settings)
    # The range of a deployment says nothing about the caller's inputs.
    known = sampled.basis.range if inputs is not None else basis.range
    return replace(sampled, basis=msgspec.structs.replace(sampled.basis, range=known))


def _label_inputs(opened: Artifact, inputs: list[Arrays] | None) -> list[tuple[str, Arrays]]:
    """Return sets of inputs with their labels: the caller's or, without any, the artifact's."""
    if inputs is not None:
        return list(zip(_label_samples(len(inputs)), inputs, strict=True))
    arrays = [sample.inputs for sample in opened.samples()]
    basis = _check_labels(opened, recorded_basis(opened), len(arrays))
    return list(zip(basis.labels or (EXAMPLE,) * len(arrays), arrays, strict=True))


def _label_samples(count: int) -> tuple[str, ...]:
    return (EXAMPLE,) if count == 1 else tuple(f"{ITEM}{number}" for number in range(count))


def recorded_basis(opened: Artifact) -> Basis:
    """Return what an artifact's verdict is based on."""
    # Artifacts of early versions have no basis.
    verification = opened.manifest.verification
    return (verification and verification.basis) or Basis()


def _check_labels(opened: Artifact, basis: Basis, count: int) -> Basis:
    """Return ``basis``; raise ArtifactError unless it has labels for ``count`` samples, or none."""
    if count and basis.labels and len(basis.labels) != count:
        raise ArtifactError(
            f'"{opened.path / SAMPLES_FILE}" has {count} samples, and the manifest has labels for '
            f"{len(basis.labels)}: one of the two files is another artifact's, or was edited",
            hint=f"verify against the model: enginebay verify {opened.path} --model MODEL "
            "--input NAME=SHAPE",
        )
    return basis


def _no_reference_error(opened: Artifact) -> UsageError:
    return UsageError(
        f"'{opened.path}' was built without a reference, so it contains no expected outputs",
        hint="name the model: enginebay verify ARTIFACT --model MODEL --input NAME=SHAPE",
    )
