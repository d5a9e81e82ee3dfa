"""Dtypes that need care with OpenVINO; the conformance kit tests the others."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from enginebay.errors import ConversionError, InferenceError


def test_bfloat16_works_with_strides_and_empty_arrays(load):
    wrapper = load(
        "(bfloat16[a, b] x, int64[a] n, bool[] flag) => (bfloat16[b, a] y, int64[a] m, bool[] f)"
        " { y = Transpose(x)  m = Identity(n)  f = Not(flag) }"
    )
    x = np.arange(24, dtype=np.float32).astype(ml_dtypes.bfloat16).reshape(4, 6)[::-2, ::3]
    out = wrapper({"x": x, "n": np.arange(4)[::2], "flag": np.array(True)})
    np.testing.assert_array_equal(out["y"], x.T)
    assert out["m"].tolist() == [0, 2]
    assert out["f"].shape == ()
    assert not out["f"]
    empty = wrapper({"x": x[:0], "n": np.arange(0), "flag": np.array(False)})
    assert empty["y"].shape == (2, 0)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_float8_inputs_are_accepted(load, dtype):
    name = dtype.replace("_", "").replace("fnu", "")
    wrapper = load(f"({name}[n] x) => (float[n] y) {{ y = Cast<to = 1>(x) }}")
    x = np.array([1, 2, 4], getattr(ml_dtypes, dtype))
    assert wrapper({"x": x})["y"].tolist() == [1, 2, 4]


def test_a_string_input_is_refused(load):
    with pytest.raises(
        ConversionError, match="input 'x' has dtype string, but backend 'openvino' supports"
    ):
        load("(string[n] x) => (string[n] y) { y = Identity(x) }")


def test_a_4_bit_output_is_refused(load):
    with pytest.raises(ConversionError) as raised:
        load("(float[n] x) => (uint4[n] y) { y = Cast<to = 21>(x) }")
    assert str(raised.value) == (
        "unsupported dtype of output 'y' of 'model.onnx': expected bool or numbers of at least "
        "8 bits, found uint4"
    )
    assert raised.value.hint == "cast the output to a supported dtype inside the model"


@pytest.mark.parametrize(
    ("dtype", "value", "held"),
    [
        ("int64", -(2**31) - 1, [-(2**31), 2**31 - 1]),
        ("int64", 2**31, [0]),
        ("uint64", 2**31, [2**31 - 1]),
        ("uint64", 2**63, [2**64 - 1]),
        ("double", 1e39, [3e38, np.nan]),
        ("double", -np.inf, [-3e38]),
    ],
)
def test_numbers_beyond_32_bits_are_refused(load, dtype, value, held):
    wrapper = load(f"({dtype}[n] ids) => ({dtype}[n] y) {{ y = Identity(ids) }}")
    kind = np.dtype(dtype)
    held = np.array(held, kind)
    np.testing.assert_allclose(wrapper({"ids": held})["y"], held)
    assert wrapper({"ids": held[:0]})["y"].shape == (0,)
    with pytest.raises(InferenceError) as raised:
        wrapper({"ids": np.array([3, value], kind)})
    assert str(raised.value) == (
        f"input 'ids' contains {value}, but OpenVINO's CPU plugin computes {kind} in 32 bits"
    )
