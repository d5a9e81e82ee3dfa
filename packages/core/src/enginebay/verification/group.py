"""One comparator on one sample, and the values that it aligns, place by place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from enginebay.verdict import ComparisonRequest, OutputComparison
from enginebay.verification.comparison import absent, hold, magnitude, tolerance_of
from enginebay.verification.output_arrays import as_numpy, slices_apart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.comparators import Comparator
    from enginebay.tensors import Array, NumpyArray
    from enginebay.verdict import Aligned, ComparisonResult
    from enginebay.verification.tolerance import Tolerance


class Measure(NamedTuple):
    """The precision that outputs are held to, and what the user replaced in the tolerance."""

    precision: str = "fp32"
    rtol: float | None = None
    atol: float | None = None


def compare_group(
    comparator: Comparator,
    expected: Mapping[str, Array],
    found: Mapping[str, Array],
    measure: Measure,
    every: Sequence[Mapping[str, Array]] = (),
) -> tuple[ComparisonResult | None, list[OutputComparison]]:
    """What a comparator says, and a comparison of each of its outputs."""
    if unlike := _unlike(expected, found):
        return None, [_by(comparator, one) for one in unlike]
    wanted = {name: _plain(array) for name, array in expected.items()}
    given = {name: _plain(array) for name, array in found.items()}
    held = _Held({name: as_numpy(array)[1] for name, array in expected.items()}, measure)
    request = ComparisonRequest(
        expected=wanted,
        found=given,
        allowed=held.allowed,
        every=tuple({name: _plain(one[name]) for name in wanted} for one in every),
    )
    result = comparator(request)
    outputs = [
        _worst_part(
            OutputComparison(
                name=name,
                dtype=held.dtypes[name],
                shape=array.shape,
                total=result.matched,
                rtol_that_passes=0.0,
                passed=True,
            ),
            [held.compare(one, array) for one in result.aligned if one.output == name],
        )
        for name, array in wanted.items()
    ]
    if not result.passed:
        outputs[0] = _failed(outputs[0], result)
    return result, [_by(comparator, one) for one in outputs]


def _unlike(expected: Mapping[str, Array], found: Mapping[str, Array]) -> list[OutputComparison]:
    """What keeps a comparator from looking at its outputs: a missing one, another dtype or rank."""
    wrong = []
    for name in (*expected, *(name for name in found if name not in expected)):
        if name not in found or name not in expected:
            wrong.append(absent(name, expected, found))
            continue
        (wanted, dtype), (given, other) = as_numpy(expected[name]), as_numpy(found[name])
        reason = ""
        if dtype != other:
            reason = f"its dtype differs: expected {dtype}, found {other}"
        elif wanted.ndim != given.ndim:
            reason = f"its shape differs: expected {wanted.shape}, found {given.shape}"
        if reason:
            shape = wanted.shape
            wrong.append(
                OutputComparison(name=name, dtype=dtype, shape=shape, passed=False, reason=reason)
            )
    return wrong


class _Held(NamedTuple):
    """The tolerance of a comparator's outputs, and their values place by place."""

    dtypes: dict[str, str]
    measure: Measure

    def allowed(self, output: str, values: Any, scale: Any = None) -> NumpyArray:
        """How far values may be off; see :class:`enginebay.verdict.Allowed`."""
        array = np.asarray(values)
        tolerance, size = self._tolerance(output, array, scale)
        reach = np.abs(array.astype(np.float64)) + size
        return np.asarray(tolerance.atol + tolerance.rtol * reach)

    def compare(self, aligned: Aligned, output: NumpyArray) -> OutputComparison | None:
        """Values that belong together, place by place; None for what is no more than noise."""
        if aligned.noise_only:
            return None
        is_own = output.dtype.kind == "f"  # in its own dtype a value is shown as it is
        wanted, given = (
            np.asarray(side).astype(output.dtype) if is_own else np.asarray(side)
            for side in (aligned.expected, aligned.found)
        )
        tolerance, size = self._tolerance(aligned.output, wanted, aligned.scale)
        result = OutputComparison(
            name=aligned.output,
            dtype=self.dtypes[aligned.output],
            shape=output.shape,
            passed=False,
        )
        held = hold(result, wanted, given, tolerance, size)
        if held.worst_index is None or aligned.places is None:
            return held
        row, *rest = held.worst_index
        place = (*(int(i) for i in aligned.places[row]), *rest)
        return msgspec.structs.replace(held, worst_index=place)

    def _tolerance(
        self, output: str, values: NumpyArray, scale: Any
    ) -> tuple[Tolerance, NumpyArray]:
        """The tolerance, and the magnitude; columns may have their own, as in an output."""
        tolerance = tolerance_of(values, self.dtypes[output], *self.measure)
        of = values if scale is None else np.asarray(scale)
        if values.ndim < 2 or values.shape[1:] != of.shape[1:] or not of.size:
            return tolerance, magnitude(of.reshape(-1), tolerance, {})
        every = slices_apart([of], noise=tolerance.noise or 0.0)
        columns = {axis: small for axis, small in every.items() if axis == of.ndim - 1}
        return tolerance, magnitude(of, tolerance, columns)


def _plain(array: Array) -> NumpyArray:
    """In a dtype that NumPy itself has."""
    values, _ = as_numpy(array)
    return values.astype(np.float32) if values.dtype.kind == "V" else values


def _worst_part(
    whole: OutputComparison, parts: Sequence[OutputComparison | None]
) -> OutputComparison:
    """The worst of an output's parts, with the places of all of them."""
    held = [part for part in parts if part is not None]
    if not held:
        return whole
    worst = max(held, key=lambda part: (part.total > 0, part.badness))
    return msgspec.structs.replace(
        worst,
        total=sum(part.total for part in held),
        mismatched_count=sum(part.mismatched_count for part in held),
        reason="" if worst.passed and not worst.total else worst.reason,
    )


def _failed(output: OutputComparison, result: ComparisonResult) -> OutputComparison:
    """The first output of a comparator that found something wrong."""
    reason = result.reason or "the comparator gives no reason"
    if not output.passed:
        return msgspec.structs.replace(output, reason=f"{output.reason}; {reason}")
    # No place and no tolerance: they are of values that do agree.
    return msgspec.structs.replace(
        output, passed=False, reason=reason, worst_index=None, rtol_that_passes=None
    )


def _by(comparator: Comparator, output: OutputComparison) -> OutputComparison:
    return msgspec.structs.replace(output, comparator=comparator.name)
