"""Comparison of one sample's outputs, element by element or by the user's comparators."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from enginebay.errors import UsageError
from enginebay.tensors import equal_arrays
from enginebay.verdict import Matching
from enginebay.verification.comparison import compare_outputs
from enginebay.verification.set_comparison import ToleranceOptions, compare_sets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.comparators import Comparator
    from enginebay.tensors import Array, NumpyArray, Sample
    from enginebay.verdict import Aligned, ComparisonResult, OutputComparison, Rounding
    from enginebay.verification.output_arrays import SmallSlices


class SampleComparison(NamedTuple):
    """The comparisons of one sample's outputs, and the results of the comparators.

    Attributes:
        outputs: The comparison of each output, in the reference's order.
        results: The result of each comparator; None if an output is missing, or has a wrong dtype
            or rank.
    """

    outputs: tuple[OutputComparison, ...]
    results: tuple[ComparisonResult | None, ...] = ()


def compare_sample(
    expected: Mapping[str, Array],
    found: Mapping[str, Array],
    options: ToleranceOptions,
    comparators: Sequence[Comparator] = (),
    small_slices: Mapping[str, SmallSlices] | None = None,
    rounding: Mapping[str, Rounding] | None = None,
    all_expected: Sequence[Mapping[str, Array]] = (),
) -> SampleComparison:
    """Compare the outputs of one sample, by the user's comparators or element by element.

    Args:
        expected: The reference's outputs.
        found: The artifact's outputs.
        options: The precision that selects the default tolerances, and the user's tolerances.
        comparators: Comparators for outputs that are compared as sets, such as detections.
        small_slices: Output name → masks of the slices (elements with the same index on an axis)
            that get a tolerance for small values; see :func:`find_small_slices`. By default, the
            slices that are small in ``expected``.
        rounding: Output name → how far elements may lie beyond the default tolerance.
        all_expected: The reference's outputs of all samples, which comparators may read.
    """
    compared_names = _compared_names(comparators)
    elementwise = compare_outputs(
        {name: array for name, array in expected.items() if name not in compared_names},
        {name: array for name, array in found.items() if name not in compared_names},
        precision=options.precision,
        rtol=options.rtol,
        atol=options.atol,
        factor=options.factor,
        apart=small_slices,
        rounding=rounding,
        scores=options.scores,
    )
    by_name = {output.name: output for output in elementwise}
    results: list[ComparisonResult | None] = []
    for comparator in comparators:
        left = {name: expected[name] for name in comparator.outputs if name in expected}
        right = {name: found[name] for name in comparator.outputs if name in found}
        result, outputs = compare_sets(comparator, left, right, options, all_expected)
        results.append(result)
        by_name |= {output.name: output for output in outputs}
    names = [*expected, *(name for name in by_name if name not in expected)]
    ordered = tuple(by_name[name] for name in names if name in by_name)
    return SampleComparison(ordered, tuple(results))


def check_comparators(comparators: Sequence[Comparator], samples: Sequence[Sample]) -> None:
    """Check that each comparator finds the reference's outputs equal to themselves.

    Raises:
        UsageError: A comparator names an unknown output, cannot compare its outputs, or finds a
            difference.
    """
    for comparator in comparators:
        for sample in samples:
            comparator.check_names(sample.outputs)
        compared = [
            {name: sample.outputs[name] for name in comparator.outputs} for sample in samples
        ]
        for arrays in compared:
            result, outputs = compare_sets(comparator, arrays, arrays, ToleranceOptions(), compared)
            # Such a comparator would fail every engine.
            if failed := [output.describe() for output in outputs if not output.passed]:
                raise UsageError(
                    f"comparator '{comparator.name}' reports that the reference differs from "
                    "itself: "
                    f"{(result and result.reason) or failed[0]}"
                )


def find_blind_comparator(
    comparators: Sequence[Comparator],
    samples: Sequence[Sample],
    comparisons: Sequence[SampleComparison],
) -> str:
    """Describe the first comparator that would pass any engine; return "" if there is none.

    Such a comparator matches nothing in any sample, or finds no difference between samples whose
    outputs differ.
    """
    for number, comparator in enumerate(comparators):
        title = f"{comparator.name} of {', '.join(comparator.outputs)}"
        results = [comparison.results[number] for comparison in comparisons]
        if not any(result.matched for result in results if result):
            return f"{title} finds nothing to match in {_describe_count(len(samples))}"
        first, *others = ({n: sample.outputs[n] for n in comparator.outputs} for sample in samples)
        differing = [outputs for outputs in others if not equal_arrays(first, outputs)]
        if differing and all(_finds_no_difference(comparator, first, other) for other in differing):
            return (
                f"{title} finds no difference between {len(samples)} samples; pass an example, or "
                "--data, with different results"
            )
    return ""


def summarize_matchings(
    comparators: Sequence[Comparator],
    labels: Sequence[str],
    comparisons: Sequence[SampleComparison],
) -> tuple[Matching, ...]:
    """Return for each comparator the worst sample, and the match counts over all samples."""
    matchings = []
    for number, comparator in enumerate(comparators):
        results = [
            (label, result)
            for label, comparison in zip(labels, comparisons, strict=True)
            if (result := comparison.results[number]) is not None
        ]
        if not results:
            continue
        label, worst = max(results, key=lambda pair: (not pair[1].passed, pair[1].badness))
        matchings.append(
            Matching(
                comparator=comparator.name,
                outputs=comparator.outputs,
                samples=len(results),
                matched=sum(result.matched for _, result in results),
                expected_alone=sum(result.expected_alone for _, result in results),
                found_alone=sum(result.found_alone for _, result in results),
                excused=sum(result.excused for _, result in results),
                worst=worst.worst,
                sample=label,
                passed=all(result.passed for _, result in results),
            )
        )
    return tuple(matchings)


def align_sample(
    comparators: Sequence[Comparator],
    sample: Sample,
    outputs: Mapping[str, Array],
    comparison: SampleComparison,
) -> tuple[Sample, dict[str, Array]]:
    """Replace the outputs that comparators compare by flat arrays of matched values.

    Returns:
        Copies of ``sample`` and of ``outputs`` (the engine's). In the flat arrays, a value of the
        reference and the engine's value that it matches have the same index. If a comparator
        returns several parts of an output, such as scores, each part has an array of its own.
    """
    compared_names = _compared_names(comparators)
    expected = {name: array for name, array in sample.outputs.items() if name not in compared_names}
    found = {name: array for name, array in outputs.items() if name not in compared_names}
    parts: dict[str, list[Aligned]] = {}
    results = filter(None, comparison.results)
    for aligned in (values for result in results for values in result.aligned):
        name = f"{aligned.output} ({aligned.part})" if aligned.part else aligned.output
        parts.setdefault(name, []).append(aligned)
    for name, values in parts.items():
        expected[name] = np.concatenate([np.ravel(aligned.expected) for aligned in values])
        found[name] = np.concatenate([np.ravel(aligned.found) for aligned in values])
    return sample._replace(outputs=expected), found


def _compared_names(comparators: Sequence[Comparator]) -> frozenset[str]:
    return frozenset(name for comparator in comparators for name in comparator.outputs)


def _finds_no_difference(
    comparator: Comparator, left: Mapping[str, NumpyArray], right: Mapping[str, NumpyArray]
) -> bool:
    try:
        _, outputs = compare_sets(comparator, left, right, ToleranceOptions())
    except UsageError:  # they differ so much that it cannot compare them
        return False
    return all(output.passed for output in outputs)


def _describe_count(samples: int) -> str:
    return f"any of {samples} samples" if samples > 1 else "the example"
