from __future__ import annotations

import numpy as np
import pytest

from enginebay.errors import UsageError
from enginebay.verification.tolerance import Tolerance, tolerance_for

PRECISIONS = ["fp32", "fp16", "bf16", "int8", "fp8"]


def test_each_precision_has_its_rtol():
    assert {precision: tolerance_for("float32", precision).rtol for precision in PRECISIONS} == {
        "fp32": 1024 * float(np.finfo(np.float32).eps),
        "fp16": 8 * float(np.finfo(np.float16).eps),
        "bf16": 8 * 2**-7,
        "int8": 0.25,
        "fp8": 0.25,
    }


def test_fp32_is_stricter_than_one_rounding_to_half():
    half = float(np.finfo(np.float16).eps) / 2
    assert 2 * tolerance_for("float32", "fp32").rtol < half


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_coarser_of_dtype_and_precision_counts(precision):
    def rtol(dtype: str) -> float:
        return tolerance_for(dtype, precision).rtol

    own = rtol("float32")
    assert rtol("float64") == rtol("complex64") == rtol("complex128") == own
    assert rtol("float16") == max(own, 2**-7)
    assert rtol("bfloat16") == max(own, 2**-4)
    assert rtol("float8_e4m3fn") == 0.25


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "bool", "string"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_integers_bools_and_strings_have_zero_tolerance(dtype, precision):
    assert tolerance_for(dtype, precision) == Tolerance(0.0, 0.0)


def test_atol_covers_only_underflow():
    assert tolerance_for("float32", "fp32").atol == float(np.finfo(np.float32).tiny)
    assert tolerance_for("float32", "fp16").atol == 8 * float(
        np.finfo(np.float16).smallest_subnormal
    )


def test_the_noise_limit_follows_dtype_and_precision():
    assert tolerance_for("float32", "fp32").noise == 32 * float(np.finfo(np.float32).eps)
    assert tolerance_for("float16", "fp32").noise == 32 * float(np.finfo(np.float16).eps)
    assert tolerance_for("float32", "int8").noise == 1.0


def test_an_unknown_precision_is_refused():
    with pytest.raises(UsageError) as caught:
        tolerance_for("float32", "fp12")
    assert str(caught.value) == ("unknown precision 'fp12'; available: fp32, fp16, bf16, int8, fp8")
