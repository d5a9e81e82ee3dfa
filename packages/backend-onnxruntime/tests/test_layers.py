"""The times of a session's nodes, and the model's nodes that each node computes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

import enginebay as eb
from enginebay.authors.artifacts import load_request

NETWORK = """
<ir_version: 10, opset_import: ["" : 21]> graph (float[1, 4, 8, 8] x) => (float[1, 4] y)
<int64[2] axes = {2, 3}>
{ a = Conv(x, w)  b = Relu(a)  c = Conv(b, v)  d = ReduceMean<keepdims = 0>(c, axes)
  e = Sigmoid(d)  y = Mul(d, e) }
"""


@pytest.fixture
def layers(tmp_path):
    """The layers of NETWORK, its nodes called ``n0``, ``n1`` and so on, with some parameters."""

    def timed(named=True, **params):
        model = parse_model(NETWORK)
        random = np.random.default_rng(0)
        for name, shape in (("w", (16, 4, 3, 3)), ("v", (4, 16, 3, 3))):
            weight = random.normal(size=shape).astype(np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
        for number, node in enumerate(model.graph.node):
            node.name = f"n{number}" if named else ""
        onnx.save(model, tmp_path / "net.onnx")
        artifact = eb.convert(
            tmp_path / "net.onnx",
            backend="onnxruntime",
            work_dir=tmp_path / "a",
            params=params,
            overwrite=True,
        )
        return load_request(artifact).time_layers({"x": np.ones((1, 4, 8, 8), np.float32)}, 5)

    return timed


def test_each_layer_lists_the_nodes_that_it_computes(layers):
    found = layers()
    assert [(layer.operator, layer.nodes) for layer in found if layer.nodes] == [
        ("Conv", ("n0", "n1")),
        ("Conv", ("n2",)),
        ("ReduceMean", ("n3",)),
        ("QuickGelu", ("n4", "n5")),
    ]
    assert all(0 <= layer.seconds < 0.1 for layer in found)
    assert sum(layer.seconds for layer in found) > 0


def test_nothing_is_fused_without_optimisations(layers):
    found = layers(graph_optimization="disable")
    assert [layer.nodes for layer in found] == [(f"n{number}",) for number in range(6)]


def test_nodes_without_names_have_times(layers):
    found = layers(named=False)
    assert [layer.operator for layer in found if layer.operator.startswith(("Re", "Conv"))]
    assert not any(layer.nodes for layer in found)


def test_a_loop_is_one_layer(tmp_path):
    text = """
    <ir_version: 10, opset_import: ["" : 21]> graph (float[3] x) => (float[3] y)
    { n = Constant<value = int64 {4}>()  t = Constant<value = bool {1}>()
      [loop] y = Loop(n, t, x) <body = inner (int64 i, bool go, float[3] s)
        => (bool same, float[3] next) { same = Identity(go)  [step] next = Cos(s) }> }
    """
    onnx.save(parse_model(text), tmp_path / "net.onnx")
    artifact = eb.convert(tmp_path / "net.onnx", backend="onnxruntime", work_dir=tmp_path / "a")
    found = load_request(artifact).time_layers({"x": np.ones(3, np.float32)}, 3)
    assert [(layer.name, layer.operator) for layer in found] == [("loop", "Loop")]
