"""ONNX graphs whose nodes are saved as separate models."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from onnx import TensorProto, helper
from packages.lab.tests.diagnosis.onnx_files import X, all_values, evaluate, node, save_graph

from enginebay_lab.diagnosis.onnx_graph import OnnxGraph, find_first_output

if TYPE_CHECKING:
    from pathlib import Path

CONSTANTS = {"c": np.float32([[1, 2, 3]]), "k": np.float32([2])}


@pytest.fixture
def graph(tmp_path: Path) -> OnnxGraph:
    """A diamond, with two nodes that do not depend on the input."""
    nodes = [
        node("Sin", "x", "a"),  # 0
        node("Exp", "c", "e"),  # 1, constant
        node("Mul", "a e", "left"),  # 2
        node("Neg", "e", "n"),  # 3, constant
        node("Add", "a k", "right"),  # 4
        node("Sum", "left right n", "y"),  # 5
    ]
    return save_graph(tmp_path / "net.onnx", nodes, ("y", "right"), CONSTANTS)


def test_outputs_and_producers(graph: OnnxGraph) -> None:
    assert graph.outputs == ["y", "right"]
    assert [graph.find_producer(name) for name in ("a", "y", "x", "c", "nothing")] == [
        *(0, 5, None, None, None)
    ]


def test_dependencies_are_in_order_and_keep_constants(graph: OnnxGraph) -> None:
    assert graph.find_dependencies(5) == [0, 1, 2, 3, 4, 5]
    assert graph.find_dependencies(4) == [0, 4]
    assert graph.find_dependencies(5, first=4) == [1, 3, 4, 5]
    assert graph.find_dependencies(5, first=5) == [1, 3, 5]
    assert graph.find_dependencies(0, first=3) == []


def test_measurable_nodes_depend_on_the_input(graph: OnnxGraph, tmp_path: Path) -> None:
    values = all_values(graph, tmp_path)
    assert graph.measurable_nodes("y", values) == [0, 2, 4, 5]
    assert graph.measurable_nodes("right", values) == [0, 4]
    assert graph.measurable_nodes("e", values) == []
    del values["left"]  # an evaluator may leave one out
    assert graph.measurable_nodes("y", values) == [0, 4, 5]


def test_the_middle_has_half_of_the_nodes_before_it(graph: OnnxGraph) -> None:
    assert graph.find_middle([0, 2, 4, 5]) in (2, 4)
    assert graph.find_middle([0, 5]) == 0
    assert graph.find_middle([4, 5]) == 4


@given(st.integers(2, 40))
def test_the_middle_of_a_chain_is_its_middle(count: int) -> None:
    import tempfile
    from pathlib import Path

    tensors = ["x", *(f"t{number}" for number in range(count))]
    nodes = [node("Neg", read, write) for read, write in itertools.pairwise(tensors)]
    with tempfile.TemporaryDirectory() as folder:
        chain = save_graph(Path(folder) / "net.onnx", nodes, tensors[-1:])
    assert chain.find_middle(range(count)) in {(count - 1) // 2, count // 2, count // 2 - 1} - {-1}


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_saved_nodes_compute_what_they_compute_in_the_graph(
    graph: OnnxGraph, tmp_path: Path, data: st.DataObject
) -> None:
    values = all_values(graph, tmp_path)
    last = data.draw(st.sampled_from([0, 2, 4, 5]))
    first = data.draw(st.integers(0, last))
    nodes = graph.find_dependencies(last, first)
    output = graph.nodes[last].output[0]
    inputs = graph.save_nodes(nodes, output, values, path := tmp_path / "piece.onnx")
    onnx.checker.check_model(onnx.load(path))
    assert set(inputs) <= {"x", "a", "left", "right"}
    found = evaluate(path, inputs)
    assert list(found) == [output]
    np.testing.assert_array_equal(found[output], values[output])


def test_saved_nodes_take_only_the_weights_that_they_read(graph: OnnxGraph, tmp_path: Path) -> None:
    values = all_values(graph, tmp_path)
    inputs = graph.save_nodes([4], "right", values, path := tmp_path / "piece.onnx")
    piece = onnx.load(path)
    assert [tensor.name for tensor in piece.graph.initializer] == ["k"]
    assert (list(inputs), piece.ir_version) == (["a"], 8)
    assert [(each.domain, each.version) for each in piece.opset_import] == [("", 17)]
    assert graph.save_nodes([0], "a", values, path).keys() == {"x"}


def test_every_tensor_is_an_output_once(graph: OnnxGraph, tmp_path: Path) -> None:
    path = tmp_path / "all.onnx"
    graph.save_with_all_outputs(path)
    names = [value.name for value in onnx.load(path).graph.output]
    assert names == ["y", "right", "a", "e", "left", "n"]
    assert graph.outputs == ["y", "right"]  # the graph itself stays


def branch(name: str, nodes: list[onnx.NodeProto], output: str) -> onnx.GraphProto:
    value = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    return helper.make_graph(nodes, name, [], [value])


def test_the_bodies_of_if_read_tensors_of_the_graph_around_them(tmp_path: Path) -> None:
    inner = branch("inner", [node("Mul", "a local", "deep")], "deep")
    then = branch("then", [node("Neg", "a", "local"), node("If", "flag", "t")], "t")
    then.node[1].attribute.append(helper.make_attribute("then_branch", inner))
    then.node[1].attribute.append(helper.make_attribute("else_branch", branch("e", [], "b")))
    other = branch("other", [], "b")  # returns an outer tensor
    nodes = [
        node("Sin", "x", "a"),
        node("Cos", "x", "b"),
        node("Tan", "x", "unread"),
        node("If", "flag", "y", then_branch=then, else_branch=other),
    ]
    graph = save_graph(tmp_path / "net.onnx", nodes, constants={"flag": np.array(True)})
    assert graph.find_dependencies(3) == [0, 1, 3]
    values = all_values(graph, tmp_path)
    path = tmp_path / "piece.onnx"
    inputs = graph.save_nodes([3], "y", values, path)
    assert inputs.keys() == {"a", "b"}
    np.testing.assert_array_equal(evaluate(path, inputs)["y"], values["a"] * -values["a"])


def test_functions_of_the_model_stay_with_the_nodes_that_call_them(tmp_path: Path) -> None:
    function = helper.make_function(
        *("mine", "Twice", ["i"], ["o"], [helper.make_node("Add", ["i", "i"], ["o"])]),
        [helper.make_opsetid("", 17)],
    )
    nodes = [node("Sin", "x", "a"), node("Twice", "a", "y", domain="mine")]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    more = {"opset_imports": imports, "functions": [function]}
    graph = save_graph(tmp_path / "net.onnx", nodes, **more)
    values = all_values(graph, tmp_path)
    inputs = graph.save_nodes([1], "y", values, path := tmp_path / "piece.onnx")
    np.testing.assert_array_equal(evaluate(path, inputs)["y"], 2 * np.sin(X))


def test_external_weights_are_loaded(tmp_path: Path) -> None:
    save_graph(tmp_path / "net.onnx", [node("Add", "x c", "y")], constants=CONSTANTS)
    model = onnx.load(tmp_path / "net.onnx")
    path = tmp_path / "outside.onnx"
    onnx.save(model, path, save_as_external_data=True, size_threshold=0, location="weights")
    graph = OnnxGraph(path)
    (tmp_path / "weights").unlink()  # a part is saved with its weights
    values = {"x": X, "y": X + CONSTANTS["c"]}
    inputs = graph.save_nodes([0], "y", values, piece := tmp_path / "piece.onnx")
    np.testing.assert_array_equal(evaluate(piece, inputs)["y"], values["y"])


def test_a_node_without_a_name_gets_the_name_of_its_first_output(tmp_path: Path) -> None:
    nodes = [node("Sin", "x", "a", name=""), node("TopK", "a k", "- i", name="")]
    nodes += [node("Cast", "i", "y", to=1, name="kept")]
    graph = save_graph(tmp_path / "net.onnx", nodes, constants={"k": np.int64([1])})
    assert [each.name for each in graph.nodes] == ["a", "i", "kept"]
    assert [find_first_output(each) for each in graph.nodes] == ["a", "i", "y"]
    assert graph.find_producer("") is None  # an omitted output has no producer
    saved = [each.name for each in onnx.load(tmp_path / "net.onnx").graph.node]
    assert saved == ["", "", "kept"]  # the file itself stays


def test_the_tensors_of_a_piece_have_the_dtypes_and_shapes_of_their_values(
    graph: OnnxGraph, tmp_path: Path
) -> None:
    values = {**all_values(graph, tmp_path), "a": np.float16([[1], [2]])}
    graph.save_nodes([4], "right", values, path := tmp_path / "piece.onnx")
    piece = onnx.load(path).graph
    (read,), (made,) = piece.input, piece.output
    kind = read.type.tensor_type
    assert (kind.elem_type, [d.dim_value for d in kind.shape.dim]) == (TensorProto.FLOAT16, [2, 1])
    assert [d.dim_value for d in made.type.tensor_type.shape.dim] == [2, 3]
