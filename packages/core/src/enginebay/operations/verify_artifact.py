"""``verify``: does an artifact still give the model's numbers, here and now?"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

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
from enginebay.tensors import Sample, save_samples, to_numpy
from enginebay.verdict import EXAMPLE, ITEM, Basis, VerdictWarning
from enginebay.verification import (
    RecordedReference,
    check_comparators,
    judge,
    without_rounding,
)

if TYPE_CHECKING:
    from enginebay.artifact import RunRecord
    from enginebay.comparators import Comparator
    from enginebay.inference import Receipt
    from enginebay.tensors import NumpyArray
    from enginebay.verdict import Verification


def verify(
    artifact: str | Path | Artifact,
    inputs: Any = None,
    reference: Any = None,
    *,
    options: VerifyOptions | None = None,
) -> Verification:
    """Compare an artifact with its model, here and now.

    An artifact that is built for more machines than this one keeps what is found: called with the
    artifact alone, it writes the verdict and a record of this run into the manifest, whose verdict
    is then that of the worst run. Any other artifact stays as it is.

    Args:
        artifact: The folder, or what :func:`enginebay.deploy` returned.
        inputs: The inputs by name, or the array alone where there is one; several sets of them
            as a list, or as anything else that is a data set; by default those that the artifact
            was verified with, else the model's own example. Samples of another artifact come with
            the outputs to compare with.
        reference: What should come out: the outputs by name, or the PyTorch model (an
            ``nn.Module``, or text that names one as on the command line); by default the outputs
            that are recorded in the artifact, which needs no torch.
        options: Tolerances, comparators and the time limit. ``compare`` is by default what the
            artifact was verified with, and ``{}`` for place by place. The probes are recorded, and
            nothing is published: what is said about them is an error.

    Returns:
        The verdict with its figures; a mismatch is returned, not raised.

    Raises:
        ArtifactError: The artifact is damaged, or bound to another engine or device.
        InputError: The inputs are not what the artifact takes.
        UsageError: There are inputs without a reference, nothing is recorded, or a comparator
            cannot be found or cannot compare these outputs.
    """
    outcome = verify_here(artifact, inputs, reference, options=options)
    outcome.verification.warn()
    outcome.warn()
    return outcome.verification


class Outcome(NamedTuple):
    """What :func:`verify_here` found, and wrote into the manifest.

    Attributes:
        verification: The verdict with its figures.
        run: What was recorded; None for nothing.
        fault: Why it could not be; else empty.
    """

    verification: Verification
    run: RunRecord | None = None
    fault: str = ""

    def warn(self) -> None:
        """Warn where the verdict could not be recorded."""
        if self.fault:
            warnings.warn(self.fault, VerdictWarning, stacklevel=3)


def verify_here(
    artifact: str | Path | Artifact,
    inputs: Any = None,
    reference: Any = None,
    *,
    options: VerifyOptions | None = None,
) -> Outcome:
    """Verify as :func:`verify` does, and return what was recorded as well."""
    options = options or VerifyOptions()
    refuse_options(options, "verify")
    rtol, atol, compare, timeout = options.rtol, options.atol, options.compare, options.timeout
    samples = recorded_samples(inputs) if reference is None else None
    if inputs is not None and reference is None and samples is None:
        raise UsageError("there are inputs, but nothing to compare with", hint="pass a reference")
    is_alone = all(one is None for one in (inputs, reference, rtol, atol, compare))

    def judge_opened(opened: Artifact) -> Outcome:
        comparators = _comparators(opened, compare)
        request = load_request(opened)
        given = None if samples else input_sets(opened, inputs)
        notes = opened.manifest.ir.notes if opened.manifest.ir else ()

        def judged(recorded: RecordedReference) -> tuple[Verification, Receipt | None]:
            with TemporaryDirectory(prefix="enginebay-verify-") as folder:
                path = Path(folder) / SAMPLES_FILE
                save_samples(path, recorded.samples)
                return judge(
                    *(request, path, recorded.description),
                    basis=recorded.basis.drop_untraced_lines(notes),
                    rtol=rtol,
                    atol=atol,
                    comparators=comparators,
                    timeout=timeout,
                )

        with ExitStack() as model_use:
            precision = request.allowed_precision()
            recorded = samples or _samples(opened, given, reference, precision, model_use)
            check_comparators(comparators, recorded.samples)
            found, receipt = judged(recorded)
            while rest := without_rounding(recorded, found, comparators):
                recorded = rest
                found, receipt = judged(rest)
        # A crash may be no more than a time limit that was too short.
        is_fact = is_alone and (receipt is not None or timeout >= VerifyOptions().timeout)
        if not (is_fact and opened.manifest.built_for):
            return Outcome(found)
        run = run_record(get_backend(opened.backend), found, receipt)
        try:
            record_run(opened, run)
        except OSError as err:
            message = f"the verdict could not be recorded in '{opened.path}': {err.strerror}"
            return Outcome(found, fault=message)
        return Outcome(found, run)

    return use_artifact(artifact, judge_opened)


def _comparators(opened: Artifact, compare: Any) -> tuple[Comparator, ...]:
    """Those given, else those of the artifact."""
    if compare is not None:
        return find_comparators(compare)
    recorded = [(one.outputs, one.comparator) for one in opened.manifest.comparators]
    return recorded_comparators(recorded, opened.path)


def recorded_samples(inputs: Any) -> RecordedReference | None:
    """The samples that were given with their outputs; None for anything else."""
    if not isinstance(inputs, list | tuple) or not inputs:
        return None
    if not all(isinstance(one, Sample) and one.outputs for one in inputs):
        return None
    return RecordedReference("the outputs given", tuple(inputs), Basis(labels=_labels(len(inputs))))


def _labels(count: int) -> tuple[str, ...]:
    """The names of so many samples in a verdict."""
    return (EXAMPLE,) if count == 1 else tuple(f"{ITEM}{number}" for number in range(count))


def input_sets(opened: Artifact, inputs: Any) -> list[dict[str, NumpyArray]] | None:
    """The sets of inputs that were given; None where there are none."""
    if inputs is None:
        return None
    if isinstance(inputs, list | tuple | str | PathLike | DataSet):
        if isinstance(inputs, list | tuple):
            inputs = [one.inputs if isinstance(one, Sample) else one for one in inputs]
        return [item.inputs for item in DataSet.of(inputs).items(opened.inputs)]
    check = InputCheck(opened.inputs)
    named = inputs if isinstance(inputs, Mapping) else check.bind_inputs(inputs)
    check.check_names(named)
    arrays = {name: to_numpy(value) for name, value in named.items()}
    check.check(arrays)
    return [arrays]


def _samples(
    opened: Artifact,
    inputs: list[dict[str, NumpyArray]] | None,
    reference: Any,
    precision: str,
    model_use: ExitStack,
) -> RecordedReference:
    """The inputs with the outputs to compare with; a model is put back when its use ends."""
    if inputs is None and reference is None:
        return _recorded(opened)
    return _referenced(inputs, reference, opened, precision, model_use)


def _recorded(artifact: Artifact) -> RecordedReference:
    samples = artifact.samples()
    if not samples or not all(sample.outputs for sample in samples):
        raise _nothing_recorded(artifact)
    return RecordedReference(_recorded_reference(artifact), tuple(samples), _basis(artifact))


def _basis(artifact: Artifact) -> Basis:
    """What the artifact's own verdict rests on; artifacts of old do not say."""
    verification = artifact.manifest.verification
    return (verification and verification.basis) or Basis()


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
    inputs: list[dict[str, NumpyArray]] | None,
    reference: Any,
    artifact: Artifact,
    precision: str,
    model_use: ExitStack,
) -> RecordedReference:
    """The samples with the reference's outputs, and probes anew where it is a model."""
    basis = _basis(artifact)
    if inputs is not None:
        arrays = inputs
        labels = _labels(len(inputs))
    else:
        arrays = [sample.inputs for sample in artifact.samples()]
        labels = basis.labels or (EXAMPLE,) * len(arrays)
    if isinstance(reference, Mapping):
        if not arrays:
            raise _nothing_recorded(artifact)
        if inputs is not None and len(inputs) != 1:
            raise UsageError(
                f"there are {len(inputs)} sets of inputs, and the outputs of one",
                hint="pass the model as the reference, or one set of inputs",
            )
        if len(arrays) != 1:
            arrays, labels = arrays[:1], labels[:1]  # outputs by name belong to the example
        outputs = {name: to_numpy(value) for name, value in reference.items()}
        sample = Sample(arrays[0], outputs)
        return RecordedReference("the outputs given", (sample,), Basis(labels=labels))
    from enginebay.models import find_model, unchanged
    from enginebay.verification import ProbeSettings, reference_model, sample_model

    names = [spec.name for spec in artifact.inputs]
    output_names = [spec.name for spec in artifact.outputs]
    source = find_model(reference)
    model_use.enter_context(unchanged(source))
    model = reference_model(source, names, arrays[0] if arrays else None, output_names or None)
    arrays = arrays or [{name: model.examples[name] for name in names or model.examples}]
    recorded = list(zip(labels or (EXAMPLE,), arrays, strict=True))
    calibrated = precision if precision in get_backend(artifact.backend).info.calibrated else ""
    settings = ProbeSettings(domain=basis.domain, calibrated=calibrated)
    found = sample_model(model, artifact.backend, recorded, precision=precision, settings=settings)
    tried = {} if inputs is not None else basis.tried
    return replace(found, basis=msgspec.structs.replace(found.basis, tried=tried))
