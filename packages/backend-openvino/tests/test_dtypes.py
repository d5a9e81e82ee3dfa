"""Every dtype that arrays and OpenVINO share comes through as it is."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from enginebay.errors import ConversionError
from enginebay_openvino.plugin import backend_info

TWICE = "(T[n, 3] x) => (T[m, 3] y) { y = Concat<axis = 0>(x, x) }"
ONNX_NAMES = {"float16": "float16", "float32": "float", "float64": "double"}
PLAIN = [name for name in backend_info().dtypes if name != "bfloat16"]


@pytest.mark.parametrize("dtype", PLAIN)
def test_every_dtype_comes_back_as_it_went_in(load, dtype):
    wrapper = load(TWICE.replace("T", ONNX_NAMES.get(dtype, dtype)))
    x = np.array([[0, 1, 100], [7, 0, 1]]).astype(dtype)
    y = wrapper({"x": x})["y"]
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, np.concatenate([x, x]))
    t = wrapper({"x": torch.from_numpy(x)})["y"]
    assert t.dtype == getattr(torch, dtype)
    np.testing.assert_array_equal(t.numpy(), y)
    assert wrapper({"x": x[:0]})["y"].shape == (0, 3)


def test_bfloat16_as_numpy_and_as_torch(load):
    wrapper = load(TWICE.replace("T", "bfloat16"))
    x = np.array([[1.5, -2, 3e38]], dtype=ml_dtypes.bfloat16)
    y = wrapper({"x": x})["y"]
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y, np.concatenate([x, x]))
    t = torch.tensor([[1.5, -2, 3e38]], dtype=torch.bfloat16)
    assert torch.equal(wrapper({"x": t})["y"], torch.cat([t, t]))
    assert wrapper.submit({"x": t}).result()["y"].dtype == torch.bfloat16


def test_bfloat16_with_any_strides_sizes_and_neighbours(load):
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


def test_bfloat16_results_stay_what_they_were(load):
    wrapper = load("(bfloat16[n] x) => (bfloat16[n] y) { y = Neg(x) }")
    x = np.ones(4, dtype=ml_dtypes.bfloat16)
    first = wrapper({"x": x})["y"]
    wrapper({"x": x * 2})
    x[:] = 7
    assert first.tolist() == [-1] * 4


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "(string[n] x) => (string[n] y) { y = Identity(x) }",
            "input 'x' of 'model.onnx' is string",
        ),
        (
            "(float[n] x) => (uint4[n] y) { y = Cast<to = 21>(x) }",
            "output 'y' of 'model.onnx' is uint4",
        ),
    ],
)
def test_what_openvino_lays_out_in_another_way_is_refused(load, text, what):
    with pytest.raises(ConversionError) as raised:
        load(text)
    assert str(raised.value) == (
        f"{what}: wanted bools or numbers of 8 bits and more, which arrays and OpenVINO lay out "
        "alike"
    )
    assert raised.value.hint == "convert it inside the model, as in Cast"
