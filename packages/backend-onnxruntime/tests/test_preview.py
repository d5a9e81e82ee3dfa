"""All operators that ONNX Runtime lacks are listed, and none that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
import pytest

import enginebay as eb
from enginebay.authors.files import read_onnx
from enginebay.hooks import ConvertRequest

if TYPE_CHECKING:
    from pathlib import Path


def list_unsupported(path: Path) -> dict[str, str] | None:
    backend = eb.get_backend("onnxruntime")
    ir, params = read_onnx(path), backend.Params()
    request = ConvertRequest(ir=ir, params=params, work_dir=path.parent)
    return backend.unsupported_operators(request)


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Two unknown operators, one without a kernel for its dtype, and supported operators."""
    text = (
        '<ir_version: 10, opset_import: ["": 21, "my.ops": 1]> g '
        "(float[1, 3] x, double[1, 3] n) => (float[1, 3] y, double[1, 3] m) {"
        " a = my.ops.Wibble(x) b = Relu(a) c = my.ops.Wobble(b) y = Add(c, x)"
        " m = Elu(n) }"
    )
    model = onnx.parser.parse_model(text)
    for number, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{number}"
    onnx.save(model, tmp_path / "planted.onnx")
    return tmp_path / "planted.onnx"


def test_all_unsupported_operators_are_listed(planted: Path) -> None:
    assert list_unsupported(planted) == {
        "Wibble_0": "ONNX Runtime has no such operator",
        "Wobble_2": "ONNX Runtime has no such operator",
        "Elu_4": "ONNX Runtime has no kernel for these dtypes",
    }


def test_only_the_listed_operators_prevent_loading(planted: Path) -> None:
    """Each listed operator alone prevents loading; without them the model loads."""
    import onnxruntime

    model = onnx.load(planted)
    for node in model.graph.node:
        if node.name in ("Wibble_0", "Wobble_2"):
            node.op_type, node.domain = "Identity", ""
        if node.name == "Elu_4":
            node.op_type = "Identity"
    onnxruntime.InferenceSession(model.SerializeToString())
    for place, (kind, domain) in {0: ("Wibble", "my.ops"), 4: ("Elu", "")}.items():
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        changed.graph.node[place].op_type = kind
        changed.graph.node[place].domain = domain
        with pytest.raises(Exception, match=kind):
            onnxruntime.InferenceSession(changed.SerializeToString())
