"""Default tolerances, and their derivation.

A correct engine differs from PyTorch by rounding: it adds in a different order, fuses operators,
and stores more or fewer bits. With ``eps`` the spacing of floating-point numbers at 1, each layer
rounds its result by about ``0.3 eps`` (one standard deviation of a uniform error). The errors of L
layers add up like a random walk, and the worst of a thousand elements lies three deviations out:
``0.3 * 3 * sqrt(L)``, which is 8 for the 64 to 80 layers of a ResNet-50 or a BERT. So 8 eps is the
unit here.

fp32
    1024 eps = 2**-13 = 1.2e-4. Sums are accumulated in fp32, and in a different order than
    PyTorch's: a sum of n terms adds a factor of sqrt(n), 128 for the longest in common use (16384
    terms), times the 8 of the layers. The result is below one rounding of fp16 (2**-11 = 4.9e-4) on
    purpose: an engine that reports fp32 but computes in half precision does not pass.
fp16
    8 eps = 2**-7 = 7.8e-3. Engines accumulate in fp32, so only the layers' roundings count.
bf16
    8 eps = 2**-4 = 6.3e-2, for the same reason.
int8, fp8
    2**-2. In 8-bit networks, the signal is 20 dB above the noise, see :mod:`.signal_to_noise`: one
    standard deviation is a tenth of the output's scale, and 2.5 of them are a quarter.
"""

from __future__ import annotations

from typing import Final

import msgspec

from enginebay.errors import UsageError
from enginebay.verdict import Rounding  # msgspec reads the annotation

_SMALLEST_NORMAL: Final = 2.0**-126  # fp32 and bf16: engines may flush smaller numbers to zero

#: Per precision: the relative tolerance, and the absolute error that underflow alone may cause. For
#: fp16 the latter is 8 times its smallest step, 2**-24.
_TOLERANCES: Final = {
    "fp32": (2.0**-13, _SMALLEST_NORMAL),
    "fp16": (2.0**-7, 2.0**-21),
    "bf16": (2.0**-4, _SMALLEST_NORMAL),
    "int8": (2.0**-2, _SMALLEST_NORMAL),
    "fp8": (2.0**-2, _SMALLEST_NORMAL),
}


#: Per precision: eps, the largest relative error of an operation that rounds.
ROUNDING: Final = {"fp32": 2.0**-23, "fp16": 2.0**-10, "bf16": 2.0**-7}

#: Per precision: the rounding noise of a whole computation, relative to the magnitude of its
#: result. It is 32 eps: the 8 eps of the layers, and a factor of 4 for sums. An 8-bit value near 0
#: is all noise.
_NOISE: Final = {kind: 32 * eps for kind, eps in ROUNDING.items()} | {"int8": 1.0, "fp8": 1.0}


#: Precisions that are also judged by their signal-to-noise ratio.
EIGHT_BITS: Final = ("int8", "fp8")


class Tolerance(msgspec.Struct, frozen=True):
    """The tolerance of an output's elements.

    An element passes if ``|found - expected| <= atol + rtol * (|expected| + scale)``. The scale is
    the magnitude of the output, or of a slice (elements with the same index on an axis), since a
    value near 0 may be a difference of larger values, with their rounding errors. So the verdict
    does not depend on the output's unit: errors of 1e-6 count in outputs of 1e-6, and outputs of
    1e4 need not agree to 1e-5.

    Attributes:
        rtol: The relative tolerance.
        atol: The absolute tolerance, in the output's unit.
        noise: The rounding noise relative to the scale; None if the scale is always 0.
        rounding: How far some elements may lie beyond this tolerance; None if none may.
        logits: The magnitude of the logits, if the output consists of scores; otherwise None. The
            scale of a score p is at least p * (1 - p) times this magnitude.
    """

    rtol: float
    atol: float
    noise: float | None = None
    rounding: Rounding | None = None
    logits: float | None = None


def tolerance_for(dtype: str, precision: str) -> Tolerance:
    """Return the tolerance of an output, from its dtype and the engine's effective precision.

    Args:
        dtype: NumPy's name of the output's dtype.
        precision: The precision that the engine computed in, not the requested one: ``fp32``,
            ``fp16``, ``bf16``, ``int8`` or ``fp8``.

    Returns:
        The tolerance of the dtype or of the precision, whichever is larger; 0 for integers, bools
        and texts.

    Raises:
        UsageError: The precision is unknown.

    Example:
        >>> tolerance_for("float32", "fp32").rtol == 2**-13
        True
        >>> tolerance_for("int64", "fp16")
        Tolerance(rtol=0.0, atol=0.0, noise=None, rounding=None, logits=None)
    """
    if precision not in _TOLERANCES:
        known = ", ".join(_TOLERANCES)
        raise UsageError(f"unknown precision '{precision}'; available: {known}")
    if not dtype.startswith(("float", "bfloat", "complex")):
        return Tolerance(0.0, 0.0)
    kinds = (precision, _precision_of(dtype))
    rtol = max(_TOLERANCES[kind][0] for kind in kinds)
    atol = max(_TOLERANCES[kind][1] for kind in kinds)
    return Tolerance(rtol, atol, max(_NOISE[kind] for kind in kinds))


def _precision_of(dtype: str) -> str:
    if dtype.startswith("float8"):
        return "fp8"
    # float64 counts as fp32: engines store constants in it at best, and compute in fp32.
    return {"float16": "fp16", "bfloat16": "bf16"}.get(dtype, "fp32")
