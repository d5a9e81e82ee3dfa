"""The verdict on an engine without the samples on which rounding alone decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from enginebay.reference.rounding_sensitivity import drop_undecided_probes
from enginebay.verification import judge

if TYPE_CHECKING:
    from enginebay.artifact import LoadRequest
    from enginebay.inference import Receipt
    from enginebay.tensors import Sample
    from enginebay.verdict import Verification
    from enginebay.verification import RecordedReference, Terms


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
    """Judge an engine until no mismatch is left that rounding errors explain.

    A probe on which rounding alone decides must not excuse an error on another one. Therefore, such
    probes are left out, and the engine is judged again on the others.

    Args:
        request: The engine to load and run.
        recorded: The inputs, with the reference's outputs.
        terms: Tolerances, comparators and the time limit.
    """
    verification, receipt = judge(request, recorded, terms)
    while rest := drop_undecided_probes(recorded, verification, terms.comparators):
        recorded = rest
        verification, receipt = judge(request, recorded, terms)
    return SettledVerdict(verification, receipt, recorded.engine_samples)
