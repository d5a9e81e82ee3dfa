"""The rules of a verdict. An engine is ``verified`` only if no rule objects.

A rule reads the evidence, and returns the reason of its objection: the engine is wrong, or its
agreement with the reference proves nothing. Each rule has a test of its own name.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from enginebay.inference import coarseness
from enginebay.tensors import equal_arrays, is_all_non_finite, is_float
from enginebay.verdict import EXAMPLE
from enginebay.verification.sample_comparison import compare_sample, find_blind_comparator
from enginebay.verification.tolerance import EIGHT_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from enginebay.tensors import Sample
    from enginebay.verdict import OutputComparison, Verdict
    from enginebay.verification.evidence import Evidence


class Rule(NamedTuple):
    """A rule, and the verdict if it objects.

    Attributes:
        verdict: The verdict if the rule objects.
        objection: Returns the reason of the objection, or None if the rule does not object. The
            reason is empty if the figures of the outputs show it.
    """

    verdict: Verdict
    objection: Callable[[Evidence], str | None]


def decide(evidence: Evidence) -> tuple[Verdict, str]:
    """Return the verdict and its reason: those of the first rule in ``RULES`` that objects."""
    for verdict, objection in RULES:
        if (reason := objection(evidence)) is not None:
            return verdict, reason
    return "verified", ""


def coarser_than_allowed(evidence: Evidence) -> str | None:
    """The engine computed in a coarser precision than the parameters allow."""
    # A file may ask for 8 bits itself. Its outputs show whether more was rounded than it says.
    basis = evidence.basis
    stored = "int8" if basis.stores_8_bits else "fp32"
    allowed = max(evidence.allowed, basis.precision, stored, key=coarseness)
    if coarseness(evidence.precision) <= coarseness(allowed):
        return None
    return f"the engine computed in {evidence.precision}, but {evidence.allowed} was requested"


def random_reference(evidence: Evidence) -> str | None:
    """The model returns other outputs in each run, which do not even prove an engine wrong."""
    return evidence.basis.doubt or None


def differing_engines(evidence: Evidence) -> str | None:
    """An output differs from another engine's, which may be wrong itself."""
    if not evidence.basis.inexact or different_outputs(evidence) is None:
        return None
    worst = max(evidence.worst_outputs, key=lambda output: output.badness)
    return (
        f"two engines differ, and neither is exact: {worst.describe()}; the other one is the "
        f"reference, since {evidence.basis.inexact}; deploy the model that the file was exported "
        "from, or pass a tolerance (--rtol)"
    )


def unexamined_mismatches(evidence: Evidence) -> str | None:
    """Rounding explains the worst mismatches, and there was no time for the others."""
    labels = evidence.basis.unexamined
    if not evidence.failed or not {*evidence.failed} <= {*labels}:
        return None
    worst = max(evidence.worst_outputs, key=lambda output: output.badness)
    return (
        "rounding explains the worst mismatch, and onnx's evaluator is too slow to find out if it "
        f"explains those on {', '.join(labels)}; {worst.describe()}; pass a tolerance (--rtol)"
    )


def different_outputs(evidence: Evidence) -> str | None:
    """An output differs, or has too much noise for 8 bits; the figures show which one."""
    signals_pass = all(signal.passed for signal in evidence.signals)
    return None if signals_pass and not evidence.failed else ""


def decided_by_rounding(evidence: Evidence) -> str | None:
    """An output differs on a sample of the caller, where other rounding errors explain it."""
    if not evidence.excused:
        return None
    labels = (label.replace(EXAMPLE, "the example") for label in evidence.excused)
    first = next(iter(evidence.excused.values()))
    return (
        f"rounding alone decides what the model returns on {', '.join(labels)}: the model itself "
        "is as far off with other rounding errors, or another order of equal values; "
        f"{first.describe()}; pass an example away from steps and ties, name outputs whose order "
        "may differ (--compare), or pass a tolerance (--rtol)"
    )


def blind_comparator(evidence: Evidence) -> str | None:
    """A comparator would pass any engine on these samples."""
    samples, comparisons = evidence.samples, evidence.comparisons
    return find_blind_comparator(evidence.comparators, samples, comparisons) or None


def nothing_finite(evidence: Evidence) -> str | None:
    """The model returns nothing but NaN and infinity, for which no error can be computed."""
    outputs = (array for sample in evidence.samples for array in sample.outputs.values())
    if all(map(is_all_non_finite, outputs)):
        return "the model returns nothing but NaN and infinity"
    return None


def unchanging_outputs(evidence: Evidence) -> str | None:
    """The outputs are the same for different inputs: an engine that ignores them would pass."""
    first, *rest = evidence.samples
    # Samples with equal inputs must have equal outputs.
    others = [sample for sample in rest if not equal_arrays(sample.inputs, first.inputs)]
    if others and all(equal_arrays(sample.outputs, first.outputs) for sample in others):
        return (
            f"no output changes between the {len(evidence.samples)} samples; pass an example whose "
            "values matter to the model"
        )
    return None


def changes_within_tolerance(evidence: Evidence) -> str | None:
    """An output changes by less than its tolerance: an engine that ignores inputs would pass."""
    # Temperatures of 300 K, give or take 0.05.
    if evidence.options.precision in EIGHT_BITS:  # the signal-to-noise ratio is measured instead
        return None
    #: By output, the largest change between samples divided by the tolerance.
    shares: dict[str, float] = {}
    for sample in evidence.samples[1:]:
        for output in _compare_with_first(evidence, sample):
            if output.max_abs_error:
                required = output.rtol_that_passes or 0.0
                share = required / (output.rtol or 1.0) if output.passed else math.inf
                shares[output.name] = max(shares.get(output.name, 0.0), share)
    for name, share in shares.items():
        if share <= 1:
            return (
                f"'{name}' varies between samples by only {share:.2g} times its tolerance, so an "
                "engine that ignores the inputs would pass; lower --rtol, or remove a constant "
                "from the output"
            )
    return None


def _compare_with_first(evidence: Evidence, sample: Sample) -> Iterator[OutputComparison]:
    """Compare the reference's outputs of a sample with those of the first one.

    Only floating-point outputs of the same shape are compared, and none that a comparator compares.
    """
    compared_names = {name for comparator in evidence.comparators for name in comparator.outputs}
    first = evidence.samples[0].outputs
    outputs = {
        name: array
        for name, array in sample.outputs.items()
        if name not in compared_names and is_float(array) and array.shape == first[name].shape
    }
    expected = {name: first[name] for name in outputs}
    slices = evidence.small_slices
    yield from compare_sample(expected, outputs, evidence.options, small_slices=slices).outputs


def nothing_compared(evidence: Evidence) -> str | None:
    """All outputs are empty, or there is no output."""
    if any(output.total for _, output in evidence.labelled_outputs):
        return None
    return "no number was compared"


def most_probes_undecided(evidence: Evidence) -> str | None:
    """More generated samples were left out than compared, since rounding errors decide them."""
    left_out = set(evidence.basis.undecided) - set(evidence.labels)
    # The example is not a generated sample.
    if len(left_out) <= len(evidence.labels) - 1:
        return None
    return "rounding alone decides what the model returns on most probe inputs"


#: All rules, in order: the first that objects decides.
RULES = (
    Rule("mismatched", coarser_than_allowed),
    Rule("unverified", random_reference),
    Rule("unverified", differing_engines),
    Rule("unverified", unexamined_mismatches),
    Rule("mismatched", different_outputs),
    Rule("unverified", decided_by_rounding),
    Rule("unverified", blind_comparator),
    Rule("unverified", nothing_finite),
    Rule("unverified", unchanging_outputs),
    Rule("unverified", changes_within_tolerance),
    Rule("unverified", nothing_compared),
    Rule("unverified", most_probes_undecided),
)
