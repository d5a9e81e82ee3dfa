"""The outputs of an ONNX file that are scores: results of Sigmoid or Softmax, between 0 and 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.ir.onnx_file import parse_onnx

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import onnx

_SCORES = frozenset({"Sigmoid", "Softmax"})
#: Operators whose results are elements of their first input.
_MOVES = frozenset(
    {
        *("Cast", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity"),
        *("ReduceMax", "ReduceMin", "Reshape", "Slice", "Split", "Squeeze", "Transpose"),
        *("Unsqueeze",),
    }
)
#: Operators whose results lie between 0 and 1 if all inputs do.
_JOINS = frozenset({"Concat", "Max", "Min", "Mul"})


def find_scores(path: Path) -> tuple[str, ...]:
    """Return the names of the outputs of an ONNX file of which each element is a score."""
    graph = parse_onnx(path).graph
    producers = {name: node for node in graph.node for name in node.output}
    return tuple(each.name for each in graph.output if _is_score(each.name, producers))


def _is_score(name: str, producers: Mapping[str, onnx.NodeProto]) -> bool:
    waiting = [name]
    for each in waiting:
        node = producers.get(each)
        if node is None or node.domain not in ("", "ai.onnx"):
            return False
        if node.op_type in _JOINS:
            waiting += (name for name in node.input if name not in waiting)
        elif node.op_type in _MOVES or (node.op_type == "TopK" and each == node.output[0]):
            waiting.append(node.input[0])
        elif node.op_type not in _SCORES:
            return False
    return True
