"""Dtypes that need care with ONNX Runtime; the conformance kit tests the others."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

import enginebay as eb
from enginebay.errors import ConversionError, InputError

ZIP_MAP = "ai.onnx.ml.ZipMap<classlabels_int64s = [0, 1]>"

TWICE = "(T[n, 3] x) => (T[m, 3] y) { y = Concat<axis = 0>(x, x) }"


@pytest.mark.parametrize("largest", [2**63 - 1, -(2**63), 2**64 - 1])
def test_large_integers_keep_every_bit(load, largest):
    wrapper = load(TWICE.replace("T", "int64" if largest < 2**63 else "uint64"))
    x = np.full((1, 3), largest, dtype=wrapper.inputs[0].dtype)
    assert wrapper({"x": x})["y"].tolist() == [[largest] * 3] * 2


def test_bfloat16_works_with_numpy_and_torch(load):
    wrapper = load("(bfloat16[n, 3] x) => (bfloat16[m, 3] y) { y = Concat<axis = 0>(x, x) }")
    x = np.array([[1.5, -2, 3e38]], dtype=ml_dtypes.bfloat16)
    y = wrapper({"x": x})["y"]
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y, np.concatenate([x, x]))
    t = torch.tensor([[1.5, -2, 3e38]], dtype=torch.bfloat16)
    assert torch.equal(wrapper({"x": t})["y"], torch.cat([t, t]))
    assert wrapper.receipt.precision == "bf16"


@pytest.mark.parametrize("operator", ["Mul", "Add", "MatMul"])
def test_arithmetic_in_bfloat16_is_refused_by_name(load, operator):
    text = f"(bfloat16[n, n] x) => (bfloat16[n, n] y) {{ y = {operator}(x, x) }}"
    with pytest.raises(
        ConversionError, match=f"has no kernel of {operator} for bfloat16"
    ) as raised:
        load(text)
    assert raised.value.hint.startswith("compute there in another dtype, such as float32")


class Mixed(torch.nn.Module):
    """A product in bfloat16, in a model of float32."""

    def forward(self, x):
        half = x.to(torch.bfloat16)
        return x + (half @ half).float()


def test_arithmetic_in_bfloat16_names_the_line_of_the_model(tmp_path):
    with pytest.raises(ConversionError) as raised:
        eb.deploy(Mixed(), torch.randn(4, 4), backend="onnxruntime", work_dir=tmp_path / "out")
    assert raised.value.hint.startswith("the model computes mm in bfloat16 (")


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


def test_bfloat16_outputs_do_not_share_input_memory(load):
    wrapper = load(
        "(bfloat16[n] x, float[n] z) => (bfloat16[n] x, float[n] z, bfloat16[n] y)"
        " { y = Identity(x) }",
    )
    x, z = np.ones(4, dtype=ml_dtypes.bfloat16), np.ones(4, dtype=np.float32)
    first = wrapper({"x": x, "z": z})
    wrapper({"x": x * 2, "z": z * 2})
    x[:] = z[:] = 7
    assert all(value.tolist() == [1, 1, 1, 1] for value in first.values())


def test_float32_tensors_may_produce_bfloat16_tensors(load):
    wrapper = load("(float[n] x) => (bfloat16[n] y) { y = Cast<to = 16>(x) }")
    y = wrapper({"x": torch.tensor([1.0, 2.0])})["y"]
    assert y.dtype == torch.bfloat16
    assert y.tolist() == [1.0, 2.0]


def test_strings_are_passed_through(load):
    wrapper = load("(string[n] x) => (string[m] y) { y = Concat<axis = 0>(x, x) }")
    for texts in (
        np.array(["a", "né", ""], dtype=object),
        np.array(["a", "né", ""]),
        ["a", "né", ""],
    ):
        y = wrapper({"x": texts})["y"]
        assert y.tolist() == ["a", "né", "", "a", "né", ""]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (np.array([1.0, 2.0]), "dtype float64"),
        (np.array(["a", None], dtype=object), "objects other than texts"),
        (torch.ones(2), "dtype float32"),
    ],
)
def test_other_values_than_texts_are_refused(load, values, found):
    wrapper = load("(string[n] x) => (string[n] y) { y = Identity(x) }")
    with pytest.raises(InputError) as raised:
        wrapper({"x": values})
    assert str(raised.value) == f"input 'x' has {found}, expected texts"
    assert raised.value.hint == "pass a NumPy array of texts: numpy.asarray(x, str)"


def test_texts_beside_tensors_stay_arrays(load):
    wrapper = load(
        "(float[n] x, string[n] s) => (float[n] y, string[n] t) { y = Relu(x) t = Identity(s) }"
    )
    y, t = wrapper(torch.tensor([-1.0, 1.0]), np.array(["a", "b"]))
    assert y.tolist() == [0.0, 1.0]
    assert t.tolist() == ["a", "b"]
    named = load("(float[n] x) => (string[n] t) { t = Cast<to = 8>(x) }")
    assert named({"x": torch.ones(2)})["t"].tolist() == ["1", "1"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "(float[4] x) => (seq(float[4]) s) { s = SequenceConstruct(x) }",
            ("output 's'", "seq(tensor(float))"),
        ),
        (
            f"(float[2] x) => (seq(map(int64, float)) m) {{ m = {ZIP_MAP}(x) }}",
            ("output 'm'", "seq(map(int64,tensor(float)))"),
        ),
        (
            "(optional(float[4]) o) => (float[4] y) { y = OptionalGetElement(o) }",
            ("input 'o'", "optional(tensor(float))"),
        ),
        (
            "(float[4] x) => (float8e4m3fn[4] y) { y = Cast<to = 17>(x) }",
            ("output 'y'", "tensor(float8e4m3fn)"),
        ),
    ],
)
def test_unsupported_types_are_refused_on_load(backend, write, text, what):
    model = write(text)
    with pytest.raises(ConversionError) as raised:
        backend.build_wrapper(work_dir=str(model.parent))
    port, found = what
    assert str(raised.value) == (
        f"wrong type of {port} of the model: expected a tensor of float32, uint8, int8, uint16, "
        "int16, int32, int64, bool, float16, float64, uint32, uint64, bfloat16, string, "
        f"found {found}"
    )
    kind = port.partition(" ")[0]
    assert raised.value.hint == (
        "export the model without ZipMap: skl2onnx.to_onnx(model, X, options={'zipmap': False})"
        if "map" in found
        else f"convert the {kind} inside the model, with ConcatFromSequence or Cast"
    )
