"""The search for the first node that an engine computes wrongly in a correct ONNX graph."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from enginebay.errors import EnginebayError
from enginebay_lab.diagnosis.bisection import Node
from enginebay_lab.diagnosis.onnx_graph import find_first_output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from enginebay.authors.arrays import NumpyArray, OutputComparison
    from enginebay_lab.diagnosis.onnx_graph import OnnxGraph

    #: A function that builds an engine of an ONNX file, runs it on inputs, and compares its only
    #: output. Arguments: the file, the inputs and the expected output, both by name.
    RunGraph: TypeAlias = Callable[
        [Path, Mapping[str, NumpyArray], Mapping[str, NumpyArray]], OutputComparison
    ]


class NodeSearch(NamedTuple):
    """Searches an ONNX graph for the first node that an engine computes wrongly.

    Attributes:
        graph: The ONNX graph to search.
        values: The correct value of every tensor in the graph, by name.
        run: Runs an ONNX file in an engine, and compares the output with the expected output.
        progress: Called with a short text about each step.
    """

    graph: OnnxGraph
    values: Mapping[str, NumpyArray]
    run: RunGraph
    progress: Callable[[str], None]

    def find_first_wrong(self, output: str) -> Node | None:
        """Find the first node whose output is wrong when an engine runs the graph.

        A binary search finds the first node whose output is wrong when the graph is cut off after
        this node: nodes on which a right node depends are right too. If an engine of only this node
        is right, a second binary search finds the shortest range of nodes that ends at this node
        and has a wrong output in an engine.

        Args:
            output: The name of a wrong output of the graph.

        Returns:
            The node. None if the output is right in an engine that computes only this output, or
            if no such engine can be built or run.
        """
        order = self.graph.measurable_nodes(output, self.values)
        if not order or (accumulated := self._compare_range(order[-1], 0)) is None:
            return None
        suspects = self._select_before(order[-1], order)
        while len(suspects) > 1:  # the last suspect is wrong, and depends on the others
            middle = self.graph.find_middle(suspects)
            before = self._select_before(middle, suspects)
            if wrong := self._compare_range(middle, 0):
                suspects, accumulated = before, wrong
            else:
                suspects = [index for index in suspects if index not in before]
        last = suspects[-1]
        order = self._select_before(last, order)
        first, alone = self._find_shortest_range(order)
        # Without constant nodes, which are part of every range.
        together = [
            self.graph.nodes[index].name
            for index in self.graph.find_dependencies(last, first)
            if index >= first and index in order
        ]
        node = self.graph.nodes[last]
        return Node(
            name=node.name,
            operator=node.op_type,
            tensor=find_first_output(node),
            together=tuple(together) if len(together) > 1 else (),
            accumulated=accumulated.max_abs_error,
            alone=None if alone is None else alone.max_abs_error,
        )

    def _select_before(self, last: int, nodes: Sequence[int]) -> list[int]:
        """Of some nodes, return ``last`` and those on which it depends."""
        dependencies = set(self.graph.find_dependencies(last))
        return [index for index in nodes if index in dependencies]

    def _find_shortest_range(self, order: Sequence[int]) -> tuple[int, OutputComparison | None]:
        """Find the shortest range of nodes that has a wrong output in an engine.

        All ranges end at the last node of ``order``.

        Returns:
            The index of the range's first node, and the comparison of the range's output. The
            comparison is None for the range of all nodes, which is not measured again.
        """
        last = order[-1]
        # An engine fuses nodes, and a cut between two of them prevents this, so a node may be right
        # alone and wrong together with others.
        if alone := self._compare_range(last, last):
            return last, alone
        low, high, comparison = 0, len(order) - 1, None
        while high - low > 1:  # the range from order[low] is wrong, from order[high] it is right
            middle = (low + high) // 2
            if wrong := self._compare_range(last, order[middle]):
                low, comparison = middle, wrong
            else:
                high = middle
        return order[low], comparison

    def _compare_range(self, last: int, first: int) -> OutputComparison | None:
        """Run a range of nodes in an engine, and return the comparison if the output is wrong.

        Return None if the output is right, or if an engine of these nodes cannot be built or run.
        """
        node = self.graph.nodes[last]
        output = find_first_output(node)
        self.progress(f"{self.graph.nodes[first].name} … {node.name}")
        with TemporaryDirectory(prefix="enginebay-bisect-") as folder:
            path = Path(folder) / "piece.onnx"
            nodes = self.graph.find_dependencies(last, first)
            inputs = self.graph.save_nodes(nodes, output, self.values, path)
            try:
                comparison = self.run(path, inputs, {output: self.values[output]})
            except EnginebayError:
                return None  # an engine may reject a part of a graph that it accepts as a whole
        return None if comparison.passed else comparison
