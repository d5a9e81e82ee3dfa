"""Which outputs of a file are scores."""

from __future__ import annotations

import onnx
import pytest
from onnx.parser import parse_model

from enginebay.ir import find_scores


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Sigmoid(x)", ("y",)),
        ("a = Softmax(x) b = Reshape(a, s) c = Transpose(b) y = Slice(c, s, s)", ("y",)),
        ("a = Sigmoid(x) b = Softmax(x) c = Concat<axis = 0>(a, b) y = Cast<to = 1>(c)", ("y",)),
        ("a = Sigmoid(x) b = Sigmoid(x) y = Mul(a, b)", ("y",)),
        ("a = Sigmoid(x) y, z = TopK(a, s)", ("y",)),
        ("a = Sigmoid(x) y = Concat<axis = 0>(a, x)", ()),
        ("a = Sigmoid(x) y = Log(a)", ()),
        ("a = Sigmoid(x) y = Mul(a, x)", ()),
        ("a = Softmax(x) y = ReduceSum(a)", ()),
        ("y = Relu(x)", ()),
        ("y = mine.Sigmoid(x)", ()),
        ("y = Identity(x)", ()),
    ],
)
def test_an_output_is_a_score_if_each_element_is_one(body, expected, tmp_path):
    outputs = "float[m] y, int64[m] z" if "z" in body else "float[m] y"
    model = parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]> g (float[n] x, int64[1] s) => '
        f"({outputs}) {{ {body} }}"
    )
    onnx.save(model, tmp_path / "m.onnx")
    assert find_scores(tmp_path / "m.onnx") == expected
