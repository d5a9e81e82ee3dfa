"""The graphs that modules are exported to, and the nodes that correspond in two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st
from packages.lab.tests.diagnosis.models import deployed, short
from packages.lab.tests.diagnosis.onnx_files import X, node, save_graph

import enginebay as eb
from enginebay.errors import EnginebayError
from enginebay_lab.diagnosis.bisect_nodes import (
    GraphNode,
    evaluate_tensors,
    make_runner,
    match_deployed_nodes,
    read_exported_graph,
)

if TYPE_CHECKING:
    from pathlib import Path


def nodes(*texts: str) -> list[GraphNode]:
    """Return nodes, each from its operator and module."""
    listed = []
    for number, text in enumerate(texts):
        operator, _, module = text.partition(" ")
        listed.append(GraphNode(f"{operator}_{number}", operator, module, f"t{number}"))
    return listed


def test_nodes_of_a_module_are_found_in_the_graph_of_the_model() -> None:
    whole = nodes("Conv stem", "Conv body.c", "Relu body", "Conv body.c", "Add body")
    piece = nodes("Conv c", "Relu", "Conv c", "Add")
    names = [each.name for each in piece]
    assert match_deployed_nodes(whole, piece, names, "body") == whole[1:]
    assert match_deployed_nodes(whole, piece, names[2:3], "body") == [whole[3]]


def test_a_node_that_only_the_graph_of_the_module_has_is_named_by_it() -> None:
    whole = nodes("Conv body", "Conv body")  # as in a model that calls the module twice
    piece = nodes("Conv", "Cast")
    conv, cast = match_deployed_nodes(whole, piece, ["Conv_0", "Cast_1"], "body")
    assert conv == GraphNode("Conv_0", "Conv", "body", "t0")
    assert cast == GraphNode("Cast_1", "Cast", "body", "t1")


def test_nodes_of_the_model_itself_have_no_module_around_them() -> None:
    whole = nodes("Add", "Add inner")
    piece = nodes("Add", "Add inner")
    assert match_deployed_nodes(whole, piece, ["Add_1", "Add_0"], "") == [whole[1], whole[0]]


@given(st.lists(st.sampled_from(["Conv a", "Conv b", "Add", "Relu a"]), min_size=1, max_size=9))
def test_equal_graphs_match_node_by_node(texts: list[str]) -> None:
    piece = nodes(*texts)
    whole = [
        each._replace(name=f"w_{each.name}", module=f"m.{each.module}".strip(".")) for each in piece
    ]
    found = match_deployed_nodes(whole, piece, [each.name for each in piece], "m")
    assert found == whole
    assert {each.kind for each in found} == {(each.operator, each.module) for each in whole}


@pytest.mark.usefixtures("loopback")
def test_the_exported_graph_has_the_module_of_each_node(tmp_path: Path) -> None:
    artifact = eb.deploy(
        *short(),
        backend="loopback",
        work_dir=tmp_path / "net",
        export=eb.ExportOptions(exporter="torchscript", keep_ir=True),
        verify=eb.VerifyOptions(probes=0),
    ).artifact
    graph = read_exported_graph(artifact.path)
    assert [(each.operator, each.module) for each in graph] == [("Gemm", "0"), ("Sigmoid", "1")]
    assert [each.module for each in read_exported_graph(artifact.path, "0")] == ["", "1"]
    assert graph[-1].tensor == artifact.outputs[0].name


@pytest.mark.usefixtures("loopback")
def test_an_artifact_without_its_ir_has_no_graph(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, model=short, probes=0)
    if artifact.ir_file is None:
        assert read_exported_graph(artifact.path) == []


def test_every_tensor_is_evaluated_with_the_inputs(tmp_path: Path) -> None:
    graph = save_graph(tmp_path / "net.onnx", [node("Neg", "x", "a"), node("Abs", "a", "y")])
    values = evaluate_tensors(graph, {"x": X}, tmp_path / "all.onnx", timeout=60)
    assert list(values) == ["x", "y", "a"]
    assert (values["a"] == -X).all()


def test_a_graph_that_the_evaluator_cannot_run_is_refused(tmp_path: Path) -> None:
    listed = [node("Foreign", "x", "a", domain="mine"), node("Abs", "a", "y")]
    import onnx

    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("mine", 1)]
    graph = save_graph(tmp_path / "net.onnx", listed, opset_imports=imports)
    with pytest.raises(EnginebayError, match="Foreign"):
        evaluate_tensors(graph, {"x": X}, tmp_path / "all.onnx", timeout=60)


def test_a_runner_returns_the_comparison_of_the_only_output() -> None:
    asked: list[Any] = []

    class Engines:
        def compare_file(self, *given: Any) -> tuple[str, ...]:
            asked.append(given)
            return ("the comparison",)

    run = make_runner(Engines())  # type: ignore[arg-type]  # only what it calls
    assert run("file", {"x": X}, {"y": X}) == "the comparison"  # type: ignore[arg-type]
    assert asked == [("file", {"x": X}, {"y": X})]
