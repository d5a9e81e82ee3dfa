"""The outputs of one sample, compared place by place or by a comparator that the user named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from enginebay.errors import UsageError
from enginebay.verdict import Matching
from enginebay.verification.comparison import compare_outputs
from enginebay.verification.group import Measure, compare_group
from enginebay.verification.output_arrays import equal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.comparators import Comparator
    from enginebay.tensors import Array, NumpyArray, Sample
    from enginebay.verdict import Aligned, ComparisonResult, OutputComparison
    from enginebay.verification.output_arrays import Apart


class Compared(NamedTuple):
    """The comparison of one sample.

    Attributes:
        outputs: Of each output, in the reference's order.
        results: Of each comparator; None where an output is missing or has another dtype.
    """

    outputs: tuple[OutputComparison, ...]
    results: tuple[ComparisonResult | None, ...] = ()


def compare_sample(
    expected: Mapping[str, Array],
    found: Mapping[str, Array],
    measure: Measure,
    comparators: Sequence[Comparator] = (),
    apart: Mapping[str, Apart] | None = None,
    every: Sequence[Mapping[str, Array]] = (),
) -> Compared:
    """Compare the outputs that a comparator names with it, and the others place by place.

    Args:
        expected: The reference's outputs.
        found: The artifact's.
        measure: What they are held to.
        comparators: What compares outputs that are sets.
        apart: As for :func:`~enginebay.verification.compare`.
        every: The reference's outputs in every sample.
    """
    named = _named(comparators)
    alone = compare_outputs(
        {name: array for name, array in expected.items() if name not in named},
        {name: array for name, array in found.items() if name not in named},
        precision=measure.precision,
        rtol=measure.rtol,
        atol=measure.atol,
        apart=apart,
    )
    by_name = {output.name: output for output in alone}
    results: list[ComparisonResult | None] = []
    for comparator in comparators:
        wanted = {name: expected[name] for name in comparator.outputs if name in expected}
        given = {name: found[name] for name in comparator.outputs if name in found}
        result, group = compare_group(comparator, wanted, given, measure, every)
        results.append(result)
        by_name |= {output.name: output for output in group}
    names = [*expected, *(name for name in by_name if name not in expected)]
    outputs = tuple(by_name[name] for name in names if name in by_name)
    return Compared(outputs, tuple(results))


def check_comparators(comparators: Sequence[Comparator], samples: Sequence[Sample]) -> None:
    """Compare the reference with itself, before anything is built.

    Raises:
        UsageError: A comparator names no output, cannot compare these, or finds a difference.
    """
    for comparator in comparators:
        for sample in samples:
            comparator.check_names(sample.outputs)
        every = [{name: one.outputs[name] for name in comparator.outputs} for one in samples]
        for outputs in every:
            result, compared = compare_group(comparator, outputs, outputs, Measure(), every)
            if wrong := [one.describe() for one in compared if not one.passed]:
                raise UsageError(
                    f"comparator '{comparator.name}' finds the reference different from itself: "
                    f"{(result and result.reason) or wrong[0]}"
                )


def unproven(
    comparators: Sequence[Comparator], samples: Sequence[Sample], compared: Sequence[Compared]
) -> str:
    """Why agreement proves nothing, as far as comparators go; empty where it proves something.

    One that finds nothing to match in any sample, or no difference between samples whose outputs
    do differ, would pass anything.
    """
    for number, comparator in enumerate(comparators):
        named = f"{comparator.name} of {', '.join(comparator.outputs)}"
        results = [one.results[number] for one in compared]
        if not any(result.matched for result in results if result):
            return f"{named} finds nothing to match in {_count(len(samples))}"
        first, *others = ({n: sample.outputs[n] for n in comparator.outputs} for sample in samples)
        differing = [one for one in others if not equal(first, one)]
        if differing and all(_agrees(comparator, first, one) for one in differing):
            return (
                f"{named} finds no difference between {len(samples)} samples; give an example or "
                "data that differ for it"
            )
    return ""


def matchings(
    comparators: Sequence[Comparator], labels: Sequence[str], compared: Sequence[Compared]
) -> tuple[Matching, ...]:
    """What each comparator found, over all samples."""
    found = []
    for number, comparator in enumerate(comparators):
        results = [
            (label, result)
            for label, one in zip(labels, compared, strict=True)
            if (result := one.results[number]) is not None
        ]
        if not results:
            continue
        label, worst = max(results, key=lambda pair: (not pair[1].passed, pair[1].badness))
        found.append(
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
    return tuple(found)


def aligned_sample(
    comparators: Sequence[Comparator],
    sample: Sample,
    outputs: Mapping[str, Array],
    compared: Compared,
) -> tuple[Sample, dict[str, Any]]:
    """A sample and the outputs found, with those of comparators in the order of the partners."""
    named = _named(comparators)
    wanted: dict[str, Any] = {n: a for n, a in sample.outputs.items() if n not in named}
    given: dict[str, Any] = {n: a for n, a in outputs.items() if n not in named}
    parts: dict[str, list[Aligned]] = {}
    for aligned in (one for result in compared.results if result for one in result.aligned):
        name = f"{aligned.output} ({aligned.part})" if aligned.part else aligned.output
        parts.setdefault(name, []).append(aligned)
    for name, ones in parts.items():
        wanted[name] = np.concatenate([np.ravel(one.expected) for one in ones])
        given[name] = np.concatenate([np.ravel(one.found) for one in ones])
    return sample._replace(outputs=wanted), given


def _named(comparators: Sequence[Comparator]) -> frozenset[str]:
    return frozenset(name for one in comparators for name in one.outputs)


def _agrees(
    comparator: Comparator, left: Mapping[str, NumpyArray], right: Mapping[str, NumpyArray]
) -> bool:
    """True if a comparator finds no difference between outputs of different inputs."""
    try:
        _, outputs = compare_group(comparator, left, right, Measure())
    except UsageError:  # they are so different that it cannot compare them
        return False
    return all(output.passed for output in outputs)


def _count(samples: int) -> str:
    return f"any of {samples} samples" if samples > 1 else "the example"
