"""Comparison of one sample's outputs by a comparator, for outputs that are compared as sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from enginebay.verdict import ComparisonRequest, OutputComparison
from enginebay.verification.comparison import (
    compare_arrays,
    compare_missing_output,
    resolve_tolerance,
    tolerance_scale,
)
from enginebay.verification.output_arrays import as_numpy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from enginebay.comparators import Comparator
    from enginebay.tensors import Array, NumpyArray
    from enginebay.verdict import Aligned, ComparisonResult
    from enginebay.verification.tolerance import Tolerance


class ToleranceOptions(NamedTuple):
    """The precision that selects the default tolerances, and the user's own tolerances.

    Attributes:
        factor: How often the default relative tolerance is allowed.
        scores: Name of an output of a sigmoid or a softmax → its largest score in all samples.
    """

    precision: str = "fp32"
    rtol: float | None = None
    atol: float | None = None
    factor: float = 1
    scores: Mapping[str, float] | None = None


def compare_sets(
    comparator: Comparator,
    expected: Mapping[str, Array],
    found: Mapping[str, Array],
    options: ToleranceOptions,
    all_expected: Sequence[Mapping[str, Array]] = (),
) -> tuple[ComparisonResult | None, list[OutputComparison]]:
    """Call a comparator; return its result, and a comparison of each output.

    If an output is missing, or has a wrong dtype or rank, the comparator is not called and the
    result is None.
    """
    if incompatible := _find_incompatible(expected, found):
        return None, [_with_comparator(comparator, output) for output in incompatible]
    left = {name: _to_native_dtype(array) for name, array in expected.items()}
    right = {name: _to_native_dtype(array) for name, array in found.items()}
    tolerances = _SetTolerances(
        {name: as_numpy(array)[1] for name, array in expected.items()}, options
    )
    request = ComparisonRequest(
        expected=left,
        found=right,
        allowed=tolerances.allowed_error,
        every=tuple(
            {name: _to_native_dtype(sample[name]) for name in left} for sample in all_expected
        ),
    )
    result = comparator(request)
    outputs = [
        _merge_parts(
            OutputComparison(
                name=name,
                dtype=tolerances.dtypes[name],
                shape=array.shape,
                total=result.matched,
                rtol_that_passes=0.0,
                passed=True,
            ),
            [
                tolerances.compare_aligned(aligned, array)
                for aligned in result.aligned
                if aligned.output == name
            ],
        )
        for name, array in left.items()
    ]
    if not result.passed:
        # The failure is not about one output, so the first one has the reason.
        outputs[0] = _mark_failed(outputs[0], result)
    return result, [_with_comparator(comparator, output) for output in outputs]


def _find_incompatible(
    expected: Mapping[str, Array], found: Mapping[str, Array]
) -> list[OutputComparison]:
    failed = []
    for name in (*expected, *(name for name in found if name not in expected)):
        if name not in found or name not in expected:
            failed.append(compare_missing_output(name, expected, found))
            continue
        (left, dtype), (right, found_dtype) = as_numpy(expected[name]), as_numpy(found[name])
        reason = ""
        if dtype != found_dtype:
            reason = f"its dtype differs: expected {dtype}, found {found_dtype}"
        elif left.ndim != right.ndim:
            reason = f"its shape differs: expected {left.shape}, found {right.shape}"
        if reason:
            shape = left.shape
            failed.append(
                OutputComparison(name=name, dtype=dtype, shape=shape, passed=False, reason=reason)
            )
    return failed


class _SetTolerances(NamedTuple):
    dtypes: dict[str, str]
    options: ToleranceOptions

    def allowed_error(
        self, output: str, values: ArrayLike, scale: ArrayLike | None = None
    ) -> NumpyArray:
        """Return each value's largest allowed error; see :class:`enginebay.verdict.Allowed`."""
        array = np.asarray(values)
        tolerance, magnitude = self._resolve(output, array, scale)
        reach = np.abs(array.astype(np.float64)) + magnitude
        return np.asarray(tolerance.atol + tolerance.rtol * reach)

    def compare_aligned(self, aligned: Aligned, output: NumpyArray) -> OutputComparison | None:
        """Compare aligned values element by element; return None for ``noise_only`` values."""
        if aligned.noise_only:
            return None
        # In the output's own dtype, so that the message shows the values as the user knows them.
        expected, found = (
            np.asarray(side).astype(output.dtype) if output.dtype.kind == "f" else np.asarray(side)
            for side in (aligned.expected, aligned.found)
        )
        tolerance, magnitude = self._resolve(aligned.output, expected, aligned.scale)
        result = OutputComparison(
            name=aligned.output, dtype=self.dtypes[aligned.output], shape=output.shape, passed=False
        )
        comparison = compare_arrays(result, expected, found, tolerance, magnitude)
        if comparison.worst_index is None or aligned.places is None:
            return comparison
        row, *rest = comparison.worst_index
        index = (*(int(i) for i in aligned.places[row]), *rest)
        return msgspec.structs.replace(comparison, worst_index=index)

    def _resolve(
        self, output: str, values: NumpyArray, scale: ArrayLike | None
    ) -> tuple[Tolerance, NumpyArray]:
        """Return the tolerance of an output, and the scale of each value.

        A column of small values has a smaller scale than the other columns.
        """
        tolerance = resolve_tolerance(values, self.dtypes[output], *self.options[:4])
        scaled = values if scale is None else np.asarray(scale)
        if values.ndim < 2 or values.shape[1:] != scaled.shape[1:] or not scaled.size:
            return tolerance, tolerance_scale(scaled.reshape(-1), tolerance, {})
        width = scaled.shape[-1]
        columns = {(scaled.ndim - 1, width): np.ones(width, bool)}
        return tolerance, tolerance_scale(scaled, tolerance, columns)


def _to_native_dtype(array: Array) -> NumpyArray:
    """Convert an array to NumPy; dtypes of ml_dtypes, such as bfloat16, become float32."""
    values, _ = as_numpy(array)
    return values.astype(np.float32) if values.dtype.kind == "V" else values


def _merge_parts(
    whole: OutputComparison, parts: Sequence[OutputComparison | None]
) -> OutputComparison:
    """Return the worst of the comparisons of an output's parts, with summed element counts."""
    compared = [part for part in parts if part is not None]
    if not compared:
        return whole
    worst = max(compared, key=lambda part: (part.total > 0, part.badness))
    return msgspec.structs.replace(
        worst,
        total=sum(part.total for part in compared),
        mismatched_count=sum(part.mismatched_count for part in compared),
        reason="" if worst.passed and not worst.total else worst.reason,
    )


def _mark_failed(output: OutputComparison, result: ComparisonResult) -> OutputComparison:
    reason = result.reason or "the comparator returned no reason"
    if not output.passed:
        return msgspec.structs.replace(output, reason=f"{output.reason}; {reason}")
    # Index and tolerance belong to values that do agree, and would mislead.
    return msgspec.structs.replace(
        output, passed=False, reason=reason, worst_index=None, rtol_that_passes=None
    )


def _with_comparator(comparator: Comparator, output: OutputComparison) -> OutputComparison:
    return msgspec.structs.replace(output, comparator=comparator.name)
