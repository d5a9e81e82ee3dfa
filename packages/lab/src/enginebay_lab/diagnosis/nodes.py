"""The search for the first node that an engine gets wrong, in a graph that is right."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from enginebay.errors import EnginebayError
from enginebay_lab.diagnosis.bisection import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from enginebay.authors import NumpyArray, OutputComparison
    from enginebay_lab.diagnosis.graph import Graph

    #: Builds an engine of an ONNX file, runs it on inputs, and compares its one output.
    RunGraph: TypeAlias = Callable[
        [Path, Mapping[str, NumpyArray], Mapping[str, NumpyArray]], OutputComparison
    ]


class NodeSearch(NamedTuple):
    """Searches a graph whose every tensor is known.

    Attributes:
        graph: The graph.
        values: Every tensor by name, as the graph should compute it.
        run: Builds an engine and compares its output.
        progress: Called with what is being done.
    """

    graph: Graph
    values: Mapping[str, NumpyArray]
    run: RunGraph
    progress: Callable[[str], None]

    def first_wrong(self, output: str) -> Node | None:
        """Find the first node that is wrong: by itself, or together with nodes before it.

        First the graph is cut off behind a node, by halving. Where the last node is right alone,
        nodes before it are added, by halving again, until it is wrong: an engine fuses nodes, and
        takes the ones apart that are cut there.

        Args:
            output: The graph's output that is wrong.

        Returns:
            The node; None where the graph cut off behind its last node is right.
        """
        order = self.graph.measurable(output, self.values)
        if not order or (through := self._wrong(order[-1], 0)) is None:
            return None
        low, high = -1, len(order) - 1
        while high - low > 1:
            middle = (low + high) // 2
            found = self._wrong(order[middle], 0)
            low, high = (low, middle) if found else (middle, high)
            through = found or through
        last = order[high]
        first, alone = self._shortest(order[: high + 1])
        together = [
            self.graph.nodes[index].name
            for index in self.graph.before(last, first)
            if index >= first and index in order
        ]
        node = self.graph.nodes[last]
        return Node(
            name=node.name,
            operator=node.op_type,
            tensor=node.output[0],
            together=tuple(together) if len(together) > 1 else (),
            accumulated=through.max_abs_error,
            alone=None if alone is None else alone.max_abs_error,
        )

    def _shortest(self, order: Sequence[int]) -> tuple[int, OutputComparison | None]:
        """The shortest range of nodes up to the last one that is wrong: its first node."""
        last = order[-1]
        if alone := self._wrong(last, last):
            return last, alone
        low, high, found = 0, len(order) - 1, None
        while high - low > 1:
            middle = (low + high) // 2
            if wrong := self._wrong(last, order[middle]):
                low, found = middle, wrong
            else:
                high = middle
        return order[low], found

    def _wrong(self, last: int, first: int) -> OutputComparison | None:
        """The comparison of a range's output if it is wrong; None if it is right or not built."""
        node = self.graph.nodes[last]
        output = node.output[0]
        self.progress(f"{self.graph.nodes[first].name} … {node.name}")
        with TemporaryDirectory(prefix="enginebay-bisect-") as folder:
            path = Path(folder) / "piece.onnx"
            inputs = self.graph.cut(self.graph.before(last, first), output, self.values, path)
            try:
                found = self.run(path, inputs, {output: self.values[output]})
            except EnginebayError:
                return None  # an engine may refuse a piece whose whole it takes
        return None if found.passed else found
