"""The nodes of a module that an engine gets wrong: is the exported graph wrong, or the engine?"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from enginebay import open_artifact
from enginebay.authors import evaluator_outputs, find_model, source_modules, to_numpy
from enginebay.errors import EnginebayError
from enginebay_lab.diagnosis.bisection import Node
from enginebay_lab.diagnosis.graph import Graph
from enginebay_lab.diagnosis.nodes import NodeSearch
from enginebay_lab.diagnosis.pieces import SideBySide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from enginebay.authors import NumpyArray, OutputComparison, Sample
    from enginebay_lab.diagnosis.bisection import Step
    from enginebay_lab.diagnosis.piece_engines import PieceEngines
    from enginebay_lab.diagnosis.search import Culprit

#: The scope of the one module of a :class:`~enginebay_lab.diagnosis.pieces.SideBySide`.
_SCOPE = "pieces.0"


class GraphNode(NamedTuple):
    """A node of an exported graph.

    Attributes:
        name: Its name.
        operator: Its operator.
        module: The path of its module, in what was exported.
        tensor: Its first output.
    """

    name: str
    operator: str
    module: str
    tensor: str

    @property
    def kind(self) -> tuple[str, str]:
        """The operator and the module."""
        return self.operator, self.module


class Finding(NamedTuple):
    """What was found in the graph of a module.

    Attributes:
        step: The step that goes wrong.
        node: The node; None where there is no ONNX graph, or nothing here can run it.
        graph: The module's graph.
        rewriters: Names of what was rewritten in it.
        comparison: The module's worst output, alone.
    """

    step: Step
    node: Node | None
    graph: list[GraphNode]
    rewriters: tuple[str, ...]
    comparison: OutputComparison | None


def kept_graph(folder: Path, scope: str = "") -> list[GraphNode]:
    """The nodes of the graph that an engine was built from; none where it was no ONNX graph.

    Args:
        folder: The engine's folder.
        scope: The path that the modules' paths begin with, to be left out.
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
            node.output[0],
        )
        for node in onnx.load(path, load_external_data=False).graph.node
    ]


def find_node(culprit: Culprit, engines: PieceEngines, progress: Callable[[str], None]) -> Finding:
    """Find the node at which a module goes wrong.

    Args:
        culprit: The module.
        engines: Builds engines.
        progress: Called with what is being done.
    """
    piece = culprit.piece
    alone = SideBySide([piece])
    progress(f"the graph of {piece.path or 'the model'}")
    try:
        judgement = engines.judge(alone, alone.tensors, alone.names)
    except EnginebayError:  # the engine takes the module as a part of the whole only
        return Finding("unknown", None, [], (), None)
    wrong = [output for output in judgement.outputs.values() if not output.passed]
    worst = max(wrong, key=lambda output: output.badness, default=None)
    graph = kept_graph(judgement.folder, _SCOPE)
    found = Finding("unknown", None, graph, judgement.rewriters, worst)
    artifact = open_artifact(judgement.folder)
    (sample,) = artifact.samples()
    path = artifact.ir_file
    if path is None:
        return found
    if not graph:
        return found._replace(step=_step_of_torch_ir(path, sample, engines))
    with TemporaryDirectory(prefix="enginebay-bisect-") as folder:
        own = Graph(path)
        try:
            values = all_values(own, sample.inputs, Path(folder) / "all.onnx", engines.timeout)
        except EnginebayError:
            return found
    given = {name: values[name] for name in sample.outputs}
    compared = engines.compare(sample.outputs, given, engines.precision)
    if off := [output.name for output in compared if not output.passed]:
        return found._replace(step="export", node=_exported(own, off[0], graph))
    output = worst.name if worst else own.outputs[0]
    search = NodeSearch(own, values, runner(engines), progress)
    node = search.first_wrong(output) or _exported(own, output, graph)
    return found._replace(step="engine", node=node)


def _step_of_torch_ir(path: Path, sample: Sample, engines: PieceEngines) -> Step:
    """The step that goes wrong where the IR is one of torch's, which PyTorch itself can run."""
    import torch

    from enginebay_lab.diagnosis.taps import tensors_in

    with torch.no_grad():
        results = find_model(path).module(*map(torch.as_tensor, sample.inputs.values()))
    found = dict(zip(sample.outputs, map(to_numpy, tensors_in(results)), strict=True))
    compared = engines.compare(sample.outputs, found, engines.precision)
    return "engine" if all(output.passed for output in compared) else "export"


def all_values(
    graph: Graph, inputs: Mapping[str, NumpyArray], path: Path, timeout: float
) -> dict[str, NumpyArray]:
    """Every tensor of a graph, by onnx's reference evaluator.

    Args:
        graph: The graph.
        inputs: Its inputs by name.
        path: Where the file is written that returns all of them.
        timeout: Seconds that the evaluator may take.

    Raises:
        EnginebayError: It cannot run the graph.
    """
    graph.save_transparent(path)
    (outputs,) = evaluator_outputs(path, [inputs], timeout=timeout)
    return {**inputs, **outputs}


def _exported(graph: Graph, output: str, nodes: list[GraphNode]) -> Node | None:
    """The last node of the module's own code before an output, else that which gives it."""
    last = graph.producer(output)
    if last is None:
        return None
    own = [index for index in graph.before(last) if nodes[index].module == ""]
    node = graph.nodes[own[-1] if own else last]
    return Node(name=node.name, operator=node.op_type, tensor=node.output[0])


def runner(
    engines: PieceEngines,
) -> Callable[[Path, Mapping[str, NumpyArray], Mapping[str, NumpyArray]], OutputComparison]:
    """Return what builds an engine of an ONNX file, runs it, and compares its one output."""

    def run(
        path: Path, inputs: Mapping[str, NumpyArray], expected: Mapping[str, NumpyArray]
    ) -> OutputComparison:
        (comparison,) = engines.judge_file(path, inputs, expected)
        return comparison

    return run


def deployed_names(
    whole: list[GraphNode], piece: list[GraphNode], names: Sequence[str], around: str
) -> list[GraphNode]:
    """The nodes of the whole model's graph that some nodes of a module's own graph are.

    Args:
        whole: The model's graph.
        piece: The module's.
        names: Names of nodes of the module's.
        around: The module's path.

    Returns:
        Those with the same module and operator, at the same place among these; a node itself where
        the graphs differ there.
    """
    return [_deployed_name(whole, piece, name, around) for name in names]


def _deployed_name(
    whole: list[GraphNode], piece: list[GraphNode], name: str, around: str
) -> GraphNode:
    own = next(each for each in piece if each.name == name)
    placed = own._replace(module=f"{around}.{own.module}".strip("."))
    here = [each for each in piece if each.kind == own.kind]
    there = [each for each in whole if each.kind == placed.kind]
    return there[here.index(own)] if len(here) == len(there) else placed
