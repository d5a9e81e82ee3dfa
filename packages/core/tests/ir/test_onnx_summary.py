"""What ``enginebay inspect`` says of an ONNX file that somebody else has written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginebay.ir import read_and_summarise, summarise_onnx
from enginebay.ir.onnx_summary import ONNXSummary

if TYPE_CHECKING:
    from pathlib import Path


def write_file(path: Path) -> Path:
    """A file with a branch, a function, operators of two domains, and weights of two dtypes."""
    then, other = (
        helper.make_graph([helper.make_node(name, ["x"], [name])], name, [], [value(name)])
        for name in ("Relu", "Neg")
    )
    function = helper.make_function(
        *("own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])]),
        [helper.make_opsetid("", 18)],
    )
    nodes = [
        helper.make_node("If", ["flag"], ["c"], then_branch=then, else_branch=other),
        helper.make_node("Twice", ["c"], ["t"], domain="own"),
        helper.make_node("QuantizeLinear", ["t", "scale"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(np.float32(0.5), "scale"),
        numpy_helper.from_array(np.ones((4, 8), np.int8), "unused"),
    ]
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, ())
    graph = helper.make_graph(nodes, "g", [value("x"), flag], [value("y")], weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, functions=[function], opset_imports=opsets)
    model.producer_name, model.producer_version = "a tool", "3.1"
    onnx.save(model, path)
    return path


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])


def test_branches_functions_domains_and_weights_are_counted(tmp_path: Path) -> None:
    found = summarise_onnx(write_file(tmp_path / "m.onnx"))
    assert found.producer == "a tool 3.1"
    assert found.opsets == {"ai.onnx": 18, "own": 1}
    assert found.operators["own"] == {"Twice": 1}
    counted = ("Add", "DequantizeLinear", "If", "Neg", "QuantizeLinear", "Relu")
    assert found.operators["ai.onnx"] == dict.fromkeys(counted, 1)
    assert found.weights == {"int8": 32, "float32": 4}
    assert set(found.quantised) == {"QuantizeLinear", "DequantizeLinear"}


@pytest.mark.parametrize("as_json", [False, True])
def test_inspect_prints_the_contents_and_what_to_type(
    as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    from enginebay.cli import main

    monkeypatch.chdir(write_file(tmp_path / "m.onnx").parent)
    assert main(["inspect", "m.onnx", *(["--json"] if as_json else [])]) == 0
    out = capsys.readouterr().out
    if as_json:
        assert '"contents": {' in out
        return
    lines = [line.split(maxsplit=1) for line in out.splitlines() if line]
    assert ["producer", "a tool 3.1"] in lines
    assert ["weights", "32 B int8, 4 B float32"] in lines
    assert "own: 1 Twice" in out
    assert "  enginebay deploy m.onnx --input x=2 --input flag=1\n" in out
    assert out.endswith("  enginebay preview m.onnx --input x=2 --input flag=1\n")


@pytest.mark.parametrize(
    ("nodes", "precision", "stored"),
    [
        ("y = Mul(x, w)", "fp16", "fp16"),
        ("v = Cast<to = 1>(w) y = Mul(x, v)", "fp32", "fp16"),
        ("c = Constant<value = float16[2] {1, 2}>() y = Mul(x, c)", "fp16", "fp16"),
        ("h = Cast<to = 16>(x) z = Mul(h, h) y = Cast<to = 1>(z)", "bf16", "bf16"),
        ("v = DequantizeLinear(q, s) y = Mul(x, v)", "fp32", "int8"),
        ("v = DequantizeLinear(q, s) u = Mul(w, w) y = Mul(x, v)", "fp16", "int8"),
        ("v = QuantizeLinear(x, s) y = DequantizeLinear(v, s)", "int8", "int8"),
        ("y = com.microsoft.QLinearAdd(x, s, z, x, s, z, s, z)", "int8", "int8"),
    ],
)
def test_the_precision_of_a_file_is_that_of_its_coarsest_operator(
    nodes: str, precision: str, stored: str, tmp_path: Path
) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> '
        f"graph (float[2] x) => (float[2] y) {{ {nodes} }}"
    )
    weights = {"w": np.ones(2, np.float16), "q": np.ones(2, np.int8), "s": np.float32(0.5)}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(each), name) for name, each in weights.items()
    )
    onnx.save(model, tmp_path / "m.onnx")
    summary = summarise_onnx(tmp_path / "m.onnx")
    found = summary.precision, summary.stored_precision, summary.stores_8_bits
    assert found == (precision, stored, True)


def test_a_file_is_described_and_summarised_in_one_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from enginebay.ir import onnx_file, read_and_summarise, read_ir

    path = write_file(tmp_path / "m.onnx")
    expected = read_ir(path), summarise_onnx(path)
    opened: list[Path] = []
    read = onnx_file.read_outline
    monkeypatch.setattr(onnx_file, "read_outline", lambda file: opened.append(file) or read(file))
    assert read_and_summarise(path)[1:] == expected
    assert opened == [path]


def test_weights_that_are_equal_are_counted(tmp_path: Path) -> None:
    large, small = np.ones((16, 32), np.float32), np.ones(4, np.int64)
    weights = {"a": large, "b": large, "c": large * 2, "d": small, "e": small}
    nodes = [helper.make_node("Identity", [name], [f"y{name}"]) for name in weights]
    outputs = [helper.make_tensor_value_info(f"y{name}", 1, None) for name in weights]
    graph = helper.make_graph(
        nodes, "g", [], outputs, [numpy_helper.from_array(w, n) for n, w in weights.items()]
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph), path)
    _, _, summary = read_and_summarise(path)
    assert isinstance(summary, ONNXSummary)
    assert summary.duplicates == (1, large.nbytes)
    assert ("duplicates", "1 weight equals another, 2.0 KiB") in summary.fields()
