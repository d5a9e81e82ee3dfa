"""Element-by-element comparison of two sets of outputs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import UsageError
from enginebay.tensors import is_float
from enginebay.verdict import OutputComparison
from enginebay.verification.comparison_accumulator import ComparisonAccumulator
from enginebay.verification.output_arrays import as_numpy, compute_scale, widen_dtype
from enginebay.verification.scores import allow_for_scores
from enginebay.verification.tolerance import EIGHT_BITS, Tolerance, tolerance_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.tensors import Array, NumpyArray
    from enginebay.verdict import Rounding
    from enginebay.verification.output_arrays import SmallSlices

#: Limits the temporary float64 arrays to some 16 MiB, however large the outputs are.
_CHUNK_ELEMENTS = 1 << 18


def compare_outputs(
    expected: Mapping[str, Array],
    found: Mapping[str, Array],
    *,
    precision: str = "fp32",
    rtol: float | None = None,
    atol: float | None = None,
    factor: float = 1,
    apart: Mapping[str, SmallSlices] | None = None,
    rounding: Mapping[str, Rounding] | None = None,
    scores: Mapping[str, float] | None = None,
) -> tuple[OutputComparison, ...]:
    """Compare an artifact's outputs with the reference's.

    Args:
        expected: The reference's outputs by name, NumPy arrays or torch tensors.
        found: The artifact's outputs.
        precision: The precision that the engine computed in; it selects the default tolerances.
        rtol: Replaces the relative tolerance of floating-point outputs.
        atol: Replaces the absolute tolerance, which by default follows each output's magnitude.
            It also applies to integers (pixels that may be off by one), never to bools.
        factor: How often the default relative tolerance is allowed.
        apart: Output name → masks of slices (elements with the same index on an axis) whose
            tolerance is relative to the magnitude of the slice, not of the output; see
            :func:`find_small_slices`. By default, the small slices of ``expected``.
        rounding: Output name → how far elements may lie beyond the default tolerance.
        scores: Name of an output of a sigmoid or a softmax, whose default tolerance is that of its
            logits → its largest score in all samples.

    Returns:
        One comparison per output: first the outputs in ``expected``, then outputs that are only in
        ``found``.

    Raises:
        UsageError: The precision is unknown, or a tolerance is negative, infinite or NaN.

    Example:
        >>> import numpy as np
        >>> result, = compare_outputs({"y": np.float32([1, 2])}, {"y": np.float32([1, 2.5])})
        >>> result.passed, result.worst_index, result.max_abs_error
        (False, (1,), 0.5)
    """
    check_tolerances(rtol, atol)
    names = [*expected, *(name for name in found if name not in expected)]
    results = []
    for name in names:
        if name not in expected or name not in found:
            results.append(compare_missing_output(name, expected, found))
        else:
            arrays = expected[name], found[name]
            slices = None if apart is None else apart.get(name)
            allowed = rounding.get(name) if rounding else None
            options = precision, rtol, atol, factor
            results.append(
                _compare_output(name, *arrays, options, slices, allowed, (scores or {}).get(name))
            )
    return tuple(results)


def check_tolerances(rtol: float | None, atol: float | None) -> None:
    """Raise UsageError if a tolerance is negative, infinite or NaN."""
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise UsageError(f'invalid {name} "{value}": expected a number of at least 0')


def compare_missing_output(
    name: str, expected: Mapping[str, Array], found: Mapping[str, Array]
) -> OutputComparison:
    """Return the failed comparison of an output that only one of the two mappings contains."""
    missing = name in expected
    values, dtype = as_numpy((expected if missing else found)[name])
    others = ", ".join(f'"{other}"' for other in (found if missing else expected)) or "none"
    side = "the artifact" if missing else "the reference"
    return OutputComparison(
        name=name,
        dtype=dtype,
        shape=values.shape,
        passed=False,
        reason=f"{side} has no such output; its outputs: {others}",
    )


def _compare_output(
    name: str,
    expected: Array,
    found: Array,
    options: tuple[str, float | None, float | None, float],
    small_slices: SmallSlices | None,
    rounding: Rounding | None,
    peak: float | None,
) -> OutputComparison:
    left, dtype = as_numpy(expected)
    right, found_dtype = as_numpy(found)
    result = OutputComparison(name=name, dtype=dtype, shape=left.shape, passed=False)
    if found_dtype != dtype:
        reason = f"its dtype differs: expected {dtype}, found {found_dtype}"
        return msgspec.structs.replace(result, reason=reason)
    if right.shape != left.shape:
        reason = f"its shape differs: expected {left.shape}, found {right.shape}"
        return msgspec.structs.replace(result, reason=reason)
    tolerance = resolve_tolerance(left, dtype, *options)
    scale = tolerance_scale(left, tolerance, small_slices)
    if options[1] is None and options[2] is None:
        tolerance = msgspec.structs.replace(tolerance, rounding=rounding)
        # In 8 bits, a score near 0 is all noise.
        if peak is not None and is_float(left) and options[0] not in EIGHT_BITS:
            tolerance = allow_for_scores(tolerance, left, peak)
    return compare_arrays(result, left, right, tolerance, scale)


def allowed_errors(
    expected: NumpyArray, precision: str, small_slices: Mapping[tuple[int, int], NumpyArray]
) -> NumpyArray:
    """Return the largest allowed error of each element of an output, without NaN and infinity.

    Args:
        expected: The output.
        precision: The precision that the engine computed in.
        small_slices: As ``apart`` in :func:`compare_outputs`; ``{}`` for no slices.
    """
    import numpy as np

    tolerance = tolerance_for(expected.dtype.name, precision)
    scale = tolerance_scale(expected, tolerance, dict(small_slices))
    return np.asarray(tolerance.atol + tolerance.rtol * (np.abs(widen_dtype(expected)) + scale))


def tolerance_scale(
    values: NumpyArray, tolerance: Tolerance, small_slices: SmallSlices | None
) -> NumpyArray:
    """Return each element's ``scale`` in the formula of :class:`Tolerance`."""
    import numpy as np

    if tolerance.noise is None or not values.size:
        return np.zeros(())
    return compute_scale(values, noise=tolerance.noise, small_slices=small_slices)


def compare_arrays(
    result: OutputComparison,
    expected: NumpyArray,
    found: NumpyArray,
    tolerance: Tolerance,
    scale: NumpyArray,
) -> OutputComparison:
    """Compare two arrays of the same shape; return ``result``, copied, with the error metrics."""
    import numpy as np

    accumulator = ComparisonAccumulator(tolerance, exact=not is_float(expected))
    left, right = expected.reshape(-1), found.reshape(-1)
    if scale.size > 1:
        scale = np.broadcast_to(scale, expected.shape)
    # A single number is broadcast as a view, which costs no memory.
    scales = np.broadcast_to(scale.reshape(-1), left.shape)
    for start in range(0, left.size, _CHUNK_ELEMENTS):
        chunk = slice(start, start + _CHUNK_ELEMENTS)
        accumulator.add_chunk(start, left[chunk], right[chunk], scales[chunk])
    return accumulator.fill_comparison(result, expected, found)


def resolve_tolerance(
    expected: NumpyArray,
    dtype: str,
    precision: str,
    rtol: float | None,
    atol: float | None,
    factor: float,
) -> Tolerance:
    """Return an output's tolerance; ``rtol`` and ``atol`` replace the defaults unless None."""
    default = tolerance_for(dtype, precision)
    # An absolute tolerance allows pixels that are off by one.
    if expected.dtype.kind in "iu":
        return Tolerance(0.0, atol or 0.0)
    # Bools and texts must be equal, whatever the caller passes.
    if default.rtol == 0:
        return default
    relative = factor * default.rtol if rtol is None else rtol
    if atol is not None:
        return Tolerance(relative, atol)
    # rtol=0 requires equal values, so not even the default atol for underflow applies.
    return Tolerance(relative, 0.0 if rtol == 0 else default.atol, default.noise)
