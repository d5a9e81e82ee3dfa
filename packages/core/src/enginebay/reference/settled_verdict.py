"""The verdict on an engine without the samples on which rounding alone decides."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from enginebay.reference.file_reference import reevaluate_witnessed
from enginebay.reference.recorded_samples import RecordedModel
from enginebay.reference.rounding_sensitivity import settle_rounding
from enginebay.verification import judge

if TYPE_CHECKING:
    from enginebay.artifact import LoadRequest
    from enginebay.inference import Receipt
    from enginebay.tensors import Sample
    from enginebay.verdict import Verification
    from enginebay.verification import Evidence, RecordedReference, Terms


class SettledVerdict(NamedTuple):
    """The result of :func:`judge_settled`.

    Attributes:
        verification: The verdict, with the error metrics of each output.
        receipt: The engine's receipt; None if the engine crashed or cannot run on this machine.
        samples: The samples on which the verdict is based.
    """

    verification: Verification
    receipt: Receipt | None
    samples: list[Sample]


def judge_settled(
    request: LoadRequest, recorded: RecordedReference, terms: Terms
) -> SettledVerdict:
    """Run an engine once, and judge it without the mismatches that rounding errors explain.

    Args:
        request: The engine to load and run.
        recorded: The inputs, with the reference's outputs.
        terms: Tolerances, comparators and the time limit.
    """
    # A second engine cannot run a file with other rounding errors.
    settle = partial(_settle, recorded) if isinstance(recorded, RecordedModel) else None
    verification, receipt = judge(request, recorded, terms, settle)
    labels, samples = recorded.basis.labels, recorded.engine_samples
    if verification.basis is not None and len(verification.basis.labels) < len(labels):
        pairs = zip(labels, samples, strict=True)
        samples = [sample for label, sample in pairs if label in verification.basis.labels]
    return SettledVerdict(verification, receipt, samples)


def _settle(recorded: RecordedModel, evidence: Evidence) -> Evidence:
    if evidence.basis.witnessed:
        assert recorded.model.source.ir is not None
        evidence = reevaluate_witnessed(recorded.model.source.ir.path, recorded, evidence)
    return settle_rounding(recorded, evidence)
