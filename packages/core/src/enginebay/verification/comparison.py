"""Two sets of outputs, place by place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.errors import UsageError
from enginebay.verdict import OutputComparison
from enginebay.verification.output_arrays import as_numpy, is_float, scale_of
from enginebay.verification.tally import Tally
from enginebay.verification.tolerance import Tolerance, tolerance_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from enginebay.tensors import Array
    from enginebay.verification.output_arrays import Apart

_CHUNK = 1 << 18  # places at a time: some 16 MiB of float64, whatever the outputs measure


def compare_outputs(
    expected: Mapping[str, Array],
    found: Mapping[str, Array],
    *,
    precision: str = "fp32",
    rtol: float | None = None,
    atol: float | None = None,
    apart: Mapping[str, Apart] | None = None,
) -> tuple[OutputComparison, ...]:
    """Hold an artifact's outputs against the reference's.

    Args:
        expected: The reference's outputs by name, NumPy arrays or torch tensors.
        found: The artifact's.
        precision: The effective precision of the engine; it sets the tolerances.
        rtol: Replaces the relative tolerance of floating-point outputs.
        atol: Replaces the absolute tolerance, which otherwise follows each output's magnitude.
            Given, it holds for integers as well (pixels that may be off by one); never for bools.
        apart: By output, the slices that have a magnitude of their own in all samples of this
            shape; by default those of this one.

    Returns:
        One comparison per output, in the order of ``expected``, then those nobody expected.

    Raises:
        UsageError: An unknown precision, or a tolerance that is negative or not a number.

    Example:
        >>> import numpy as np
        >>> one, = compare_outputs({"y": np.float32([1, 2])}, {"y": np.float32([1, 2.5])})
        >>> one.passed, one.worst_index, one.max_abs_error
        (False, (1,), 0.5)
    """
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise UsageError(f'{name} "{value}" is no tolerance; wanted a number of at least 0')
    names = [*expected, *(name for name in found if name not in expected)]
    results = []
    for name in names:
        if name not in expected or name not in found:
            results.append(absent(name, expected, found))
        else:
            pair = expected[name], found[name]
            of_all = None if apart is None else apart.get(name)
            results.append(_compare_one(name, *pair, precision, rtol, atol, of_all))
    return tuple(results)


def absent(
    name: str, expected: Mapping[str, Array], found: Mapping[str, Array]
) -> OutputComparison:
    """The comparison of an output that only one side has."""
    missing = name in expected
    values, dtype = as_numpy((expected if missing else found)[name])
    others = ", ".join(f'"{other}"' for other in (found if missing else expected)) or "none"
    side = "the artifact" if missing else "the reference"
    return OutputComparison(
        name=name,
        dtype=dtype,
        shape=values.shape,
        passed=False,
        reason=f"{side} has no such output; it has {others}",
    )


def _compare_one(
    name: str,
    expected: Array,
    found: Array,
    precision: str,
    rtol: float | None,
    atol: float | None,
    apart: Apart | None,
) -> OutputComparison:
    """The comparison of an output that both sides have."""
    wanted, wanted_dtype = as_numpy(expected)
    given, given_dtype = as_numpy(found)
    result = OutputComparison(name=name, dtype=wanted_dtype, shape=wanted.shape, passed=False)
    if given_dtype != wanted_dtype:
        reason = f"its dtype differs: expected {wanted_dtype}, found {given_dtype}"
        return msgspec.structs.replace(result, reason=reason)
    if given.shape != wanted.shape:
        reason = f"its shape differs: expected {wanted.shape}, found {given.shape}"
        return msgspec.structs.replace(result, reason=reason)
    tolerance = tolerance_of(wanted, wanted_dtype, precision, rtol, atol)
    scale = magnitude(wanted, tolerance, apart)
    return hold(result, wanted, given, tolerance, scale)


def magnitude(
    values: np.ndarray[Any, Any], tolerance: Tolerance, apart: Apart | None
) -> np.ndarray[Any, Any]:
    """The magnitude that values come from, as far as the tolerance lets it count."""
    import numpy as np

    if tolerance.noise is None or not values.size:
        return np.zeros(())
    return scale_of(values, noise=tolerance.noise, apart=apart)


def hold(
    result: OutputComparison,
    wanted: np.ndarray[Any, Any],
    given: np.ndarray[Any, Any],
    tolerance: Tolerance,
    scale: np.ndarray[Any, Any],
) -> OutputComparison:
    """The finished comparison of two arrays of one shape."""
    import numpy as np

    tally = Tally(tolerance, exact=not is_float(wanted))
    left, right = wanted.reshape(-1), given.reshape(-1)
    if scale.size > 1:
        scale = np.broadcast_to(scale, wanted.shape)
    everywhere = np.broadcast_to(scale.reshape(-1), left.shape)  # one number stays one
    for start in range(0, left.size, _CHUNK):
        places = slice(start, start + _CHUNK)
        tally.add(start, left[places], right[places], everywhere[places])
    return tally.fill(result, wanted, given)


def tolerance_of(
    wanted: np.ndarray[Any, Any],
    dtype: str,
    precision: str,
    rtol: float | None,
    atol: float | None,
) -> Tolerance:
    """The default tolerance with what the caller replaced in it."""
    default = tolerance_for(dtype, precision)
    if wanted.dtype.kind in "iu":
        return Tolerance(0.0, atol or 0.0)
    if default.rtol == 0:
        return default
    relative = default.rtol if rtol is None else rtol
    if atol is not None:
        return Tolerance(relative, atol)
    return Tolerance(relative, 0.0 if rtol == 0 else default.atol, default.noise)
