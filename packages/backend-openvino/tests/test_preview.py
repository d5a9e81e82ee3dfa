"""All operators that OpenVINO lacks are listed, and none that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx

import enginebay as eb
from enginebay.authors.files import read_onnx
from enginebay.hooks import ConvertRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_all_unsupported_operators_are_listed(write: Callable[..., Path]) -> None:
    path = write(
        "(float[1, 3] x) => (float[1, 3] y) "
        "{ a = my.ops.Wibble(x) b = Relu(a) c = Wobble(b) y = Add(c, x) }",
        imports='"": 21, "my.ops": 1',
    )
    model = onnx.load(path)
    for node in model.graph.node:
        node.name = f"the_{node.op_type}"
    onnx.save(model, path)
    backend = eb.get_backend("openvino")
    ir = read_onnx(path)
    reason = "OpenVINO has no conversion rule for this operator"
    request = ConvertRequest(ir=ir, params=backend.Params(), work_dir=path.parent)
    assert backend.unsupported_operators(request) == {
        "the_Wibble": reason,
        "the_Wobble": reason,
    }


def test_no_operator_of_a_supported_model_is_listed(write: Callable[..., Path]) -> None:
    path = write("(float[n, 3] x) => (float[n, 3] y) { a = Softmax(x) y = Add(a, x) }")
    backend = eb.get_backend("openvino")
    ir, params = read_onnx(path), backend.Params()
    request = ConvertRequest(ir=ir, params=params, work_dir=path.parent)
    assert backend.unsupported_operators(request) == {}
