"""The search for the wrong ONNX node in a module, and for the cause: the export or the engine."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from enginebay import open_artifact
from enginebay.authors.arrays import to_numpy
from enginebay.authors.files import source_modules
from enginebay.authors.sources import evaluator_outputs, find_model
from enginebay.errors import EnginebayError
from enginebay_lab.diagnosis.bisection import Node
from enginebay_lab.diagnosis.node_search import NodeSearch
from enginebay_lab.diagnosis.onnx_graph import OnnxGraph, find_first_output
from enginebay_lab.diagnosis.pieces import SideBySide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from enginebay.authors.arrays import NumpyArray, OutputComparison, Sample
    from enginebay_lab.diagnosis.bisection import Step
    from enginebay_lab.diagnosis.module_search import Culprit
    from enginebay_lab.diagnosis.piece_engines import PieceEngines

#: The path of the only module in a :class:`~enginebay_lab.diagnosis.pieces.SideBySide`.
_SCOPE = "pieces.0"


class GraphNode(NamedTuple):
    """A node of an exported graph.

    Attributes:
        name: The node's name.
        operator: The node's operator, such as ``Conv``.
        module: The path of the module that the node was exported from.
        tensor: The name of the node's first output.
    """

    name: str
    operator: str
    module: str
    tensor: str

    @property
    def kind(self) -> tuple[str, str]:
        """The operator and the module's path, which are equal for matching nodes of two graphs."""
        return self.operator, self.module


class NodeFinding(NamedTuple):
    """The result of a search in the exported graph of a wrong module.

    Attributes:
        step: ``export`` if the exported graph is wrong, ``engine`` if only the engine is wrong,
            ``unknown`` if the module cannot be built as a separate engine, or if no evaluator can
            run the exported graph.
        node: The wrong node; None if the IR is not ONNX, or if the step is unknown.
        graph: The nodes of the module's graph; empty if the IR is not ONNX.
        rewriters: The names of the rewriters that changed the module.
        comparison: The comparison of the module's worst output when an engine runs only the
            module; None if no output is wrong, or if this engine cannot be built.
    """

    step: Step
    node: Node | None
    graph: list[GraphNode]
    rewriters: tuple[str, ...]
    comparison: OutputComparison | None


def read_exported_graph(folder: Path, scope: str = "") -> list[GraphNode]:
    """Return the nodes of an artifact's exported ONNX graph; an empty list if the IR is not ONNX.

    Args:
        folder: The artifact's folder.
        scope: A prefix to remove from the module path of each node.
    """
    path = open_artifact(folder).ir_file
    if path is None or path.suffix != ".onnx":
        return []
    import onnx

    modules = source_modules(path)
    return [
        GraphNode(
            node.name,
            node.op_type,
            modules.get(node.name, "").removeprefix(scope).strip("."),
            find_first_output(node),
        )
        for node in onnx.load(path, load_external_data=False).graph.node  # without weights
    ]


def find_wrong_node(
    culprit: Culprit, engines: PieceEngines, progress: Callable[[str], None]
) -> NodeFinding:
    """Find the wrong node of a wrong module, and whether the export or the engine is the cause.

    Args:
        culprit: The wrong module.
        engines: Builds engines and compares their outputs.
        progress: Called with a short text about each step.
    """
    piece = culprit.piece
    alone = SideBySide([piece])
    progress(f"the graph of {piece.path or 'the model'}")
    try:
        # Built again: the engine of the module search has the graphs of other modules too.
        comparison = engines.compare_module(alone, alone.tensors, alone.names)
    except EnginebayError:  # the engine accepts the module only as a part of the model
        return NodeFinding("unknown", None, [], (), None)
    wrong = [output for output in comparison.outputs.values() if not output.passed]
    worst = max(wrong, key=lambda output: output.badness, default=None)
    graph = read_exported_graph(comparison.folder, _SCOPE)
    finding = NodeFinding("unknown", None, graph, comparison.rewriters, worst)
    if comparison.doubt:
        return finding
    artifact = open_artifact(comparison.folder)
    (sample,) = artifact.samples()  # only the example, because verification used no probes
    path = artifact.ir_file
    if path is None:
        return finding
    if not graph:
        return finding._replace(step=_find_step_of_torch_ir(path, sample, engines))
    with TemporaryDirectory(prefix="enginebay-bisect-") as folder:
        onnx_graph = OnnxGraph(path)
        file = Path(folder) / "all.onnx"
        try:
            values = evaluate_tensors(onnx_graph, sample.inputs, file, engines.timeout)
        except EnginebayError:
            return finding
    evaluated = {name: values[name] for name in sample.outputs}
    compared = engines.compare_values(sample.outputs, evaluated, engines.precision)
    # The graph is wrong already, before any engine runs it.
    if differing := [output.name for output in compared if not output.passed]:
        node = _find_last_own_node(onnx_graph, differing[0], graph)
        return finding._replace(step="export", node=node)
    output = worst.name if worst else onnx_graph.outputs[0]
    search = NodeSearch(onnx_graph, values, make_runner(engines), progress)
    # The search finds no node if each engine of a part of the graph is right: it fuses fewer nodes.
    node = search.find_first_wrong(output) or _find_last_own_node(onnx_graph, output, graph)
    return finding._replace(step="engine", node=node)


def _find_step_of_torch_ir(path: Path, sample: Sample, engines: PieceEngines) -> Step:
    """Run a TorchScript or torch.export IR in PyTorch, and compare the outputs with a sample's.

    Return ``export`` if an output of the IR is wrong, else ``engine``: the cause of the error.
    """
    import torch

    from enginebay_lab.diagnosis.intermediate_outputs import find_tensors

    with torch.no_grad():
        results = find_model(path).module(*map(torch.as_tensor, sample.inputs.values()))
    outputs = dict(zip(sample.outputs, map(to_numpy, find_tensors(results)), strict=True))
    compared = engines.compare_values(sample.outputs, outputs, engines.precision)
    return "engine" if all(output.passed for output in compared) else "export"


def evaluate_tensors(
    graph: OnnxGraph, inputs: Mapping[str, NumpyArray], path: Path, timeout: float
) -> dict[str, NumpyArray]:
    """Compute all tensors of a graph with onnx's reference evaluator, and return them by name.

    Args:
        graph: The ONNX graph to compute.
        inputs: The graph's inputs by name.
        path: A path for a temporary ONNX file.
        timeout: Time limit in seconds.

    Raises:
        EnginebayError: The evaluator cannot run the graph.
    """
    graph.save_with_all_outputs(path)
    (outputs,) = evaluator_outputs(path, [inputs], timeout=timeout)
    return {**inputs, **outputs}


def _find_last_own_node(graph: OnnxGraph, output: str, nodes: list[GraphNode]) -> Node | None:
    """Of the nodes on which a module's output depends, return the last node outside submodules.

    If all these nodes are in submodules, return the node that computes the output. If no node
    computes the output, return None.
    """
    last = graph.find_producer(output)
    if last is None:
        return None
    # The culprit is the innermost wrong module, so nodes of its submodules are not suspected.
    own = [index for index in graph.find_dependencies(last) if nodes[index].module == ""]
    node = graph.nodes[own[-1] if own else last]
    return Node(name=node.name, operator=node.op_type, tensor=find_first_output(node))


def make_runner(
    engines: PieceEngines,
) -> Callable[[Path, Mapping[str, NumpyArray], Mapping[str, NumpyArray]], OutputComparison]:
    """Return a function that runs an ONNX file with one output in an engine.

    The function returns the comparison of this output with the expected output.
    """

    def run_file(
        path: Path, inputs: Mapping[str, NumpyArray], expected: Mapping[str, NumpyArray]
    ) -> OutputComparison:
        (comparison,) = engines.compare_file(path, inputs, expected)
        return comparison

    return run_file


def match_deployed_nodes(
    whole: list[GraphNode], piece: list[GraphNode], names: Sequence[str], around: str
) -> list[GraphNode]:
    """Find the nodes in the model's graph that correspond to nodes in the graph of one module.

    Args:
        whole: The nodes of the model's graph.
        piece: The nodes of the module's graph.
        names: The names of the nodes to match in the module's graph.
        around: The module's path.

    Returns:
        One node for each name. Among the nodes with the same operator and module path, the first
        of one graph is matched with the first of the other, and so on. If the two graphs have
        different numbers of such nodes, the node of the module's graph is returned instead.
    """
    return [_match_deployed_node(whole, piece, name, around) for name in names]


def _match_deployed_node(
    whole: list[GraphNode], piece: list[GraphNode], name: str, around: str
) -> GraphNode:
    node = next(candidate for candidate in piece if candidate.name == name)
    in_model = node._replace(module=f"{around}.{node.module}".strip("."))
    similar = [candidate for candidate in piece if candidate.kind == node.kind]
    matches = [candidate for candidate in whole if candidate.kind == in_model.kind]
    return matches[similar.index(node)] if len(similar) == len(matches) else in_model
