"""``verify``: compare an artifact with its model on this machine."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from enginebay.artifact import load_request, record_run, run_record, use_artifact
from enginebay.comparators import find_comparators, recorded_comparators
from enginebay.config import VerifyOptions, refuse_options
from enginebay.errors import UsageError
from enginebay.operations.backend import get_backend
from enginebay.operations.expected_outputs import (
    find_reference,
    input_sets,
    read_passed_samples,
    recorded_basis,
)
from enginebay.operations.settings import check_timeout
from enginebay.reference import judge_settled
from enginebay.verdict import VerdictWarning
from enginebay.verification import Terms, check_comparators

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from enginebay.artifact import Artifact, RunRecord
    from enginebay.comparators import Comparator
    from enginebay.verdict import Verification


def verify(
    artifact: str | Path | Artifact,
    inputs: object = None,
    reference: object = None,
    *,
    options: VerifyOptions | Mapping[str, object] | None = None,
    params: Mapping[str, object] | None = None,
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
        params: Other values of the backend's run-time parameters, as for :func:`enginebay.load`.

    Returns:
        The verdict, with the error metrics of each output. A mismatch raises no error.

    Raises:
        ArtifactError: The artifact is damaged, or bound to another engine or device.
        InputError: The inputs do not fit the artifact.
        ParamsError: A parameter is unknown, has an invalid value, or is built into the artifact.
        UsageError: There are inputs but no reference, the artifact contains no expected outputs, or
            a comparator is unknown or cannot compare these outputs.
    """
    result = verify_here(artifact, inputs, reference, options=options, params=params)
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
    params: Mapping[str, object] | None = None,
) -> RecordedVerification:
    """Verify as :func:`verify` does, and return the verdict together with the run's record."""
    options = VerifyOptions.of(options)
    refuse_options(options, "verify")
    rtol, atol, compare, timeout = options.rtol, options.atol, options.compare, options.timeout
    check_timeout(timeout)
    samples = read_passed_samples(inputs) if reference is None else None
    if inputs is not None and reference is None and samples is None:
        raise UsageError(
            "inputs were passed without a reference: there are no expected outputs",
            hint="pass the expected outputs, or the PyTorch model, as reference",
        )
    is_default = all(option is None for option in (inputs, reference, rtol, atol, compare, params))

    def verify_opened(opened: Artifact) -> RecordedVerification:
        comparators = _find_comparators(opened, compare)
        request = load_request(opened, params=params)
        sets = None if samples else input_sets(opened, inputs)
        ir = opened.manifest.ir
        notes = None if ir is None or ir.exporter == "file" else ir.notes
        with ExitStack() as model_use:
            precision = request.allowed_precision()
            recorded = samples or find_reference(opened, sets, reference, precision, model_use)
            check_comparators(comparators, recorded.samples)
            terms = Terms(timeout, rtol, atol, comparators)
            recorded = recorded.for_engine(notes, scores=recorded_basis(opened).scores)
            verification, receipt, _ = judge_settled(request, recorded, terms)
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
