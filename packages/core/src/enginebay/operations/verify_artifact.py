"""``verify``: compare an artifact with its model on this machine."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from enginebay.artifact import (
    SAMPLES_FILE,
    Artifact,
    load_request,
    record_run,
    run_record,
    use_artifact,
)
from enginebay.backend import get_backend
from enginebay.comparators import find_comparators, recorded_comparators
from enginebay.config import VerifyOptions, refuse_options
from enginebay.data import DataSet
from enginebay.errors import UsageError
from enginebay.inference import InputCheck
from enginebay.reference import RecordedReference, drop_undecided_probes
from enginebay.tensors import Sample, save_samples, to_numpy
from enginebay.verdict import EXAMPLE, ITEM, Basis, VerdictWarning
from enginebay.verification import check_comparators, judge

if TYPE_CHECKING:
    from enginebay.artifact import RunRecord
    from enginebay.comparators import Comparator
    from enginebay.inference import Receipt
    from enginebay.tensors import NumpyArray
    from enginebay.verdict import Verification


def verify(
    artifact: str | Path | Artifact,
    inputs: object = None,
    reference: object = None,
    *,
    options: VerifyOptions | Mapping[str, object] | None = None,
) -> Verification:
    """Compare an artifact with its model on this machine.

    If the engine is built for other machines and only ``artifact`` is passed, a record of this run
    is added to the manifest, and the artifact's verdict becomes the worst verdict of all runs.
    Otherwise the artifact stays unchanged.

    Args:
        artifact: The artifact, or the path of its folder.
        inputs: A mapping of inputs by name, or the array of a single input. For several sets of
            inputs: a list, or a data set or an argument for one. By default the inputs that the
            artifact was verified with or, if it has none, the example of the model source. The
            samples of another artifact may be passed: they contain the expected outputs as well.
        reference: The expected outputs by name, or the PyTorch model: an ``nn.Module``, or its name
            as on the command line. By default the outputs that the artifact contains, which
            requires no torch.
        options: Tolerances, comparators and the time limit, also as a mapping such as
            ``{"rtol": 1e-3}``. By default ``compare`` has the comparators of the artifact; ``{}``
            compares all outputs element by element. Options about probe inputs and publishing are
            not allowed: they concern only a deployment.

    Returns:
        The verdict, with the error metrics of each output. A mismatch raises no error.

    Raises:
        ArtifactError: The artifact is damaged, or bound to another engine or device.
        InputError: The inputs do not fit the artifact.
        UsageError: There are inputs but no reference, the artifact contains no expected outputs, or
            a comparator is unknown or cannot compare these outputs.
    """
    result = verify_here(artifact, inputs, reference, options=options)
    result.verification.warn()
    result.warn()
    return result.verification


class RecordedVerification(NamedTuple):
    """The result of :func:`verify_here`.

    Attributes:
        verification: The verdict, with the error metrics of each output.
        run: The record of this verification that was added to the manifest; None if none was added.
        fault: Why the record could not be added; empty if there was no such error.
    """

    verification: Verification
    run: RunRecord | None = None
    fault: str = ""

    def warn(self) -> None:
        """Warn if the verdict could not be recorded."""
        if self.fault:
            warnings.warn(self.fault, VerdictWarning, stacklevel=3)


def verify_here(
    artifact: str | Path | Artifact,
    inputs: object = None,
    reference: object = None,
    *,
    options: VerifyOptions | Mapping[str, object] | None = None,
) -> RecordedVerification:
    """Verify as :func:`verify` does, and return the verdict together with the run's record."""
    options = VerifyOptions.of(options)
    refuse_options(options, "verify")
    rtol, atol, compare, timeout = options.rtol, options.atol, options.compare, options.timeout
    samples = _read_samples(inputs) if reference is None else None
    if inputs is not None and reference is None and samples is None:
        raise UsageError(
            "inputs were passed without a reference: there are no expected outputs",
            hint="pass the expected outputs, or the PyTorch model, as reference",
        )
    is_default = all(option is None for option in (inputs, reference, rtol, atol, compare))

    def verify_opened(opened: Artifact) -> RecordedVerification:
        comparators = _find_comparators(opened, compare)
        request = load_request(opened)
        sets = None if samples else input_sets(opened, inputs)
        notes = opened.manifest.ir.notes if opened.manifest.ir else ()

        def judge_samples(recorded: RecordedReference) -> tuple[Verification, Receipt | None]:
            with TemporaryDirectory(prefix="enginebay-verify-") as folder:
                path = Path(folder) / SAMPLES_FILE
                save_samples(path, recorded.samples)
                return judge(
                    request,
                    path,
                    recorded.description,
                    basis=recorded.basis.drop_untraced_lines(notes),
                    rtol=rtol,
                    atol=atol,
                    comparators=comparators,
                    timeout=timeout,
                )

        with ExitStack() as model_use:
            precision = request.allowed_precision()
            recorded = samples or _collect_samples(opened, sets, reference, precision, model_use)
            check_comparators(comparators, recorded.samples)
            verification, receipt = judge_samples(recorded)
            while rest := drop_undecided_probes(recorded, verification, comparators):
                recorded = rest
                verification, receipt = judge_samples(rest)
        # A crash with a short time limit may be only a time-out, which should not be recorded.
        is_reliable = is_default and (receipt is not None or timeout >= VerifyOptions().timeout)
        if not (is_reliable and opened.manifest.built_for):
            return RecordedVerification(verification)
        run = run_record(get_backend(opened.backend), verification, receipt)
        try:
            record_run(opened, run)
        except OSError as err:
            message = f"the verdict could not be recorded in '{opened.path}': {err.strerror}"
            return RecordedVerification(verification, fault=message)
        return RecordedVerification(verification, run)

    return use_artifact(artifact, verify_opened)


def _find_comparators(
    opened: Artifact, compare: Mapping[str, object] | None
) -> tuple[Comparator, ...]:
    if compare is not None:
        return find_comparators(compare)
    recorded = [(record.outputs, record.comparator) for record in opened.manifest.comparators]
    return recorded_comparators(recorded, opened.path)


def _read_samples(inputs: object) -> RecordedReference | None:
    """Return the samples in ``inputs`` if all items are samples with outputs; otherwise None."""
    if not isinstance(inputs, list | tuple) or not inputs:
        return None
    if not all(isinstance(item, Sample) and item.outputs for item in inputs):
        return None
    basis = Basis(labels=_label_samples(len(inputs)))
    return RecordedReference("the passed outputs", tuple(inputs), basis)


def _label_samples(count: int) -> tuple[str, ...]:
    return (EXAMPLE,) if count == 1 else tuple(f"{ITEM}{number}" for number in range(count))


def input_sets(opened: Artifact, inputs: object) -> list[dict[str, NumpyArray]] | None:
    """Return the caller's sets of inputs as checked arrays; None without inputs."""
    if inputs is None:
        return None
    if isinstance(inputs, list | tuple | str | PathLike | DataSet):
        if isinstance(inputs, list | tuple):
            inputs = [item.inputs if isinstance(item, Sample) else item for item in inputs]
        return [item.inputs for item in DataSet.of(inputs).items(opened.inputs)]
    check = InputCheck(opened.inputs)
    named = inputs if isinstance(inputs, Mapping) else check.bind_inputs(inputs)
    check.check_names(named)
    arrays = {name: to_numpy(value) for name, value in named.items()}
    check.check(arrays)
    return [arrays]


def _collect_samples(
    opened: Artifact,
    inputs: list[dict[str, NumpyArray]] | None,
    reference: object,
    precision: str,
    model_use: ExitStack,
) -> RecordedReference:
    """Return inputs with expected outputs.

    The expected outputs come from ``reference``; if it is None, they come from the artifact.
    """
    if inputs is None and reference is None:
        return _read_recorded(opened)
    return _compute_reference(inputs, reference, opened, precision, model_use)


def _read_recorded(artifact: Artifact) -> RecordedReference:
    samples = artifact.samples()
    if not samples or not all(sample.outputs for sample in samples):
        raise _no_reference_error(artifact)
    description = _describe_reference(artifact)
    return RecordedReference(description, tuple(samples), _recorded_basis(artifact))


def _recorded_basis(artifact: Artifact) -> Basis:
    # Artifacts of early versions have no basis.
    verification = artifact.manifest.verification
    return (verification and verification.basis) or Basis()


def _no_reference_error(artifact: Artifact) -> UsageError:
    return UsageError(
        f"'{artifact.path}' was built without a reference, so it contains no expected outputs",
        hint="name the model: enginebay verify ARTIFACT --model MODEL --input NAME=SHAPE",
    )


def _describe_reference(artifact: Artifact) -> str:
    verification = artifact.manifest.verification
    against = verification.reference if verification else ""
    return f"the recorded outputs of {against}" if against else "the recorded outputs"


def _compute_reference(
    inputs: list[dict[str, NumpyArray]] | None,
    reference: object,
    artifact: Artifact,
    precision: str,
    model_use: ExitStack,
) -> RecordedReference:
    """Return inputs with the expected outputs from ``reference``.

    If ``reference`` is a model, probe inputs (generated, similar to the inputs) are added.
    """
    basis = _recorded_basis(artifact)
    if inputs is not None:
        arrays = inputs
        labels = _label_samples(len(inputs))
    else:
        arrays = [sample.inputs for sample in artifact.samples()]
        labels = basis.labels or (EXAMPLE,) * len(arrays)
    if isinstance(reference, Mapping):
        if not arrays:
            raise _no_reference_error(artifact)
        if inputs is not None and len(inputs) != 1:
            raise UsageError(
                f"one set of outputs requires one set of inputs, found {len(inputs)} sets of "
                "inputs",
                hint="pass the model as the reference, or one set of inputs",
            )
        if len(arrays) != 1:
            arrays, labels = arrays[:1], labels[:1]  # outputs by name belong to the example
        outputs = {name: to_numpy(value) for name, value in reference.items()}
        sample = Sample(arrays[0], outputs)
        return RecordedReference("the passed outputs", (sample,), Basis(labels=labels))
    # Only a model as the reference requires torch.
    from enginebay.reference import ProbeSettings, reference_model, sample_model
    from enginebay.sources import find_model
    from enginebay.state import unchanged

    names = [spec.name for spec in artifact.inputs]
    output_names = [spec.name for spec in artifact.outputs]
    source = find_model(reference)
    model_use.enter_context(unchanged(source))
    model = reference_model(source, names, arrays[0] if arrays else None, output_names or None)
    # An artifact that `convert` built contains no samples.
    arrays = arrays or [{name: model.examples[name] for name in names or model.examples}]
    recorded = list(zip(labels or (EXAMPLE,), arrays, strict=True))
    calibrated = precision if precision in get_backend(artifact.backend).info.calibrated else ""
    settings = ProbeSettings(domain=basis.domain, calibrated=calibrated)
    sampled = sample_model(
        model, artifact.backend, recorded, precision=precision, settings=settings
    )
    # The sizes that a deployment has tried say nothing about the caller's inputs.
    tried = {} if inputs is not None else basis.tried
    return replace(sampled, basis=msgspec.structs.replace(sampled.basis, tried=tried))
