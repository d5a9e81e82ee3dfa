"""The search for the first node that an engine computes wrongly: faults planted in nodes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from packages.lab.tests.diagnosis.onnx_files import (
    PlantedNodes,
    all_values,
    node,
    save_graph,
)

from enginebay_lab.diagnosis.node_search import NodeSearch

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay_lab.diagnosis.bisection import Node
    from enginebay_lab.diagnosis.onnx_graph import OnnxGraph


def find(
    graph: OnnxGraph,
    engine: PlantedNodes,
    folder: Path,
    output: str = "y",
    steps: list[str] | None = None,
) -> Node | None:
    """Search a graph for the first node that the engine computes wrongly."""
    if steps is None:
        steps = []
    search = NodeSearch(graph, all_values(graph, folder), engine, steps.append)
    return search.find_first_wrong(output)


def chain(path: Path, count: int = 8) -> OnnxGraph:
    """Write ``count`` nodes, one after the other: n_t0 … n_y."""
    tensors = ["x", *(f"t{number}" for number in range(count - 1)), "y"]
    operators = ("Sin", "Cos", "Tanh", "Neg")
    pairs = itertools.pairwise(tensors)
    nodes = [node(operators[i % 4], read, write) for i, (read, write) in enumerate(pairs)]
    return save_graph(path, nodes)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_fault_is_found_wherever_it_is_planted(tmp_path: Path, data: st.DataObject) -> None:
    tensors, nodes = ["x"], []
    for number in range(data.draw(st.integers(2, 9))):  # sums, so that no fault disappears again
        reads = data.draw(st.lists(st.sampled_from(tensors), min_size=2, max_size=2))
        nodes.append(node("Add", " ".join(reads), f"t{number}"))
        tensors.append(f"t{number}")
    nodes.append(node("Sum", " ".join(tensors), "y"))
    graph = save_graph(tmp_path / "net.onnx", nodes)
    wrong = data.draw(st.sampled_from([each.name for each in nodes]))
    engine = PlantedNodes([wrong])
    found = find(graph, engine, tmp_path)
    assert found is not None
    assert (found.name, found.together) == (wrong, ())
    assert found.alone == pytest.approx(1)


@pytest.mark.parametrize("number", range(8))
def test_each_node_of_a_chain_is_found_in_few_engines(tmp_path: Path, number: int) -> None:
    graph = chain(tmp_path / "net.onnx")
    engine = PlantedNodes([wrong := graph.nodes[number].name])
    found = find(graph, engine, tmp_path)
    assert found is not None
    assert (found.name, found.operator) == (wrong, graph.nodes[number].op_type)
    assert (found.tensor, found.together) == (graph.nodes[number].output[0], ())
    assert found.alone == pytest.approx(1)
    assert found.accumulated == pytest.approx(1)
    assert len(engine.ran) <= 5  # the whole, log2(8) steps, and the node alone
    assert engine.ran[-1] == [wrong]


@pytest.mark.parametrize(("first", "last"), [(0, 1), (2, 3), (1, 5), (0, 7), (6, 7)])
def test_nodes_that_are_wrong_only_together_are_found_together(
    tmp_path: Path, first: int, last: int
) -> None:
    graph = chain(tmp_path / "net.onnx")
    names = [each.name for each in graph.nodes]
    engine = PlantedNodes([names[first], names[last]])
    found = find(graph, engine, tmp_path)
    assert found is not None
    assert (found.name, found.together) == (names[last], tuple(names[first : last + 1]))
    # The range of all nodes is what was measured accumulated.
    assert found.alone == (None if first == 0 else pytest.approx(1))
    assert found.accumulated == pytest.approx(1)


def test_constants_are_part_of_each_range_but_of_no_result(tmp_path: Path) -> None:
    nodes = [
        node("Sin", "x", "a"),
        node("Exp", "c", "e"),
        node("Shape", "c", "s"),
        node("Expand", "e s", "k"),
        node("Mul", "a k", "b"),
        node("Neg", "b", "y"),
    ]
    graph = save_graph(tmp_path / "net.onnx", nodes, constants={"c": np.float32([[1, 2, 3]])})
    engine = PlantedNodes(["n_b", "n_y"])
    found = find(graph, engine, tmp_path)
    assert found is not None
    assert (found.name, found.together) == ("n_y", ("n_b", "n_y"))
    assert ["n_a", "n_e", "n_s", "n_k", "n_b"] in engine.ran
    alone = PlantedNodes(["n_b"])
    found = find(graph, alone, tmp_path)
    assert found is not None
    assert found.name == "n_b"
    assert alone.ran[-1] == ["n_e", "n_s", "n_k", "n_b"]


def test_a_wrong_node_on_one_branch_is_not_its_neighbour(tmp_path: Path) -> None:
    nodes = [
        node("Sin", "x", "left"),
        node("Cos", "x", "right"),
        node("Neg", "right", "far"),
        node("Add", "left far", "y"),
    ]
    graph = save_graph(tmp_path / "net.onnx", nodes, outputs=("y", "left"))
    for wrong in ("n_left", "n_right", "n_far"):
        found = find(graph, PlantedNodes([wrong]), tmp_path)
        assert found is not None
        assert found.name == wrong
    # Only the nodes that an output depends on are searched.
    assert find(graph, PlantedNodes(["n_right"]), tmp_path, "left") is None


def test_an_omitted_first_output_is_not_what_is_compared(tmp_path: Path) -> None:
    weights = {"w": np.ones((1, 4, 3), np.float32), "r": np.ones((1, 4, 1), np.float32)}
    nodes = [
        node("Sin", "x", "a"),
        node("Unsqueeze", "a axes", "s"),
        node("LSTM", "s w r", "- h", name="lstm", hidden_size=1),
        node("Neg", "h", "y"),
    ]
    constants = {**weights, "axes": np.int64([0])}
    graph = save_graph(tmp_path / "net.onnx", nodes, constants=constants)
    found = find(graph, PlantedNodes(["lstm"], output=1), tmp_path)
    assert found is not None
    assert (found.name, found.tensor, found.together) == ("lstm", "h", ())
    assert found.alone == pytest.approx(1)


def test_a_node_without_a_name_is_called_by_its_output(tmp_path: Path) -> None:
    nodes = [node("Sin", "x", "a", name=""), node("Neg", "a", "y", name="")]
    graph = save_graph(tmp_path / "net.onnx", nodes)
    found = find(graph, PlantedNodes(["a"]), tmp_path)
    assert found is not None
    assert (found.name, found.operator, found.tensor) == ("a", "Sin", "a")
    together = find(graph, PlantedNodes(["a", "y"]), tmp_path)
    assert together is not None
    assert together.together == ("a", "y")


def test_integers_and_empty_tensors_are_not_compared(tmp_path: Path) -> None:
    nodes = [
        node("Sin", "x", "a"),
        node("ArgMax", "a", "index", axis=1),
        node("Cast", "index", "f", to=1),
        node("Gather", "a none", "empty", axis=1),
        node("Concat", "f empty", "y", axis=1),
    ]
    constants = {"none": np.zeros(0, np.int64)}
    graph = save_graph(tmp_path / "net.onnx", nodes, constants=constants)
    values = all_values(graph, tmp_path)
    assert values["empty"].size == 0
    assert [graph.nodes[i].name for i in graph.measurable_nodes("y", values)] == [
        *("n_a", "n_f", "n_y")
    ]
    found = find(graph, PlantedNodes(["n_f"]), tmp_path)
    assert found is not None
    assert found.name == "n_f"


def test_no_node_is_found_if_the_graph_of_the_output_is_right_or_refused(tmp_path: Path) -> None:
    graph = chain(tmp_path / "net.onnx")
    assert find(graph, PlantedNodes([]), tmp_path) is None
    assert find(graph, PlantedNodes(["n_y"], refused=["n_y"]), tmp_path) is None
    assert find(graph, PlantedNodes(["n_y"]), tmp_path, "x") is None  # an input has no node


def test_no_node_is_found_if_the_output_is_a_constant(tmp_path: Path) -> None:
    nodes = [node("Sin", "x", "y"), node("Neg", "c", "k")]
    graph = save_graph(tmp_path / "net.onnx", nodes, ("y", "k"), {"c": np.float32([1, 2])})
    assert find(graph, PlantedNodes(["n_k"]), tmp_path, "k") is None


def test_a_part_that_the_engine_refuses_counts_as_right(tmp_path: Path) -> None:
    graph = chain(tmp_path / "net.onnx")
    search = all_values(graph, tmp_path)

    class Picky(PlantedNodes):
        """Refuses a file that ends at the middle node."""

        def __call__(self, path: Path, inputs: object, expected: dict[str, object]) -> object:  # type: ignore[override]  # a test's
            self.refused = {"n_t3"} if "t3" in expected else set()
            return super().__call__(path, inputs, expected)  # type: ignore[arg-type]

    found = NodeSearch(graph, search, Picky(["n_t5"]), lambda text: None).find_first_wrong("y")  # type: ignore[arg-type]
    assert found is not None
    assert found.name == "n_t5"


def test_each_step_is_told_by_its_first_and_last_node(tmp_path: Path) -> None:
    steps: list[str] = []
    find(chain(tmp_path / "net.onnx", 3), PlantedNodes(["n_t1"]), tmp_path, steps=steps)
    assert steps == ["n_t0 … n_y", "n_t0 … n_t0", "n_t0 … n_t1", "n_t1 … n_t1"]
