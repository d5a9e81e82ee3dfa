"""The nodes in which two ONNX graphs differ: other attributes, or an operator in place of another.

Outputs that agree on some samples do not show them: the rounding of a pool's size matters at some
sizes only, and a limit only beyond it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from enginebay_lab.diagnosis.model_weights import walk_graphs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import onnx

#: Operator and attributes: (name, value) pairs with the defaults of its schema.
_Node: TypeAlias = tuple[str, frozenset[tuple[str, str]]]

#: Attributes without a meaning in inference.
_MEANINGLESS = frozenset({"momentum", "saturate", "seed"})

#: More differing operators are another exporter's graph, or an optimised one.
_MOST = 3


def find_changed_nodes(first: Path, other: Path) -> tuple[str, ...]:
    """Describe the nodes in which two files differ; empty if the graphs are built differently.

    Example of a result: ``("MaxPool: ceil_mode 0 instead of 1",)``.
    """
    import onnx

    graphs = (onnx.load(path, load_external_data=False) for path in (first, other))
    ours, theirs = (Counter(_list_nodes(model)) for model in graphs)
    lost, new = [*(ours - theirs).elements()], [*(theirs - ours).elements()]
    texts = []
    for operator, attributes in lost:
        twin = next((node for node in new if node[0] == operator), None)
        if twin is not None:
            new.remove(twin)
            before, after = dict(attributes), dict(twin[1])
            differing = sorted(n for n in {*before, *after} if before.get(n) != after.get(n))
            parts = (f"{n} {after.get(n, 'none')} instead of {before.get(n)}" for n in differing)
            texts.append(f"{operator}: {', '.join(parts)}")
        else:
            texts.append(f"a {operator} less")
    texts += [f"a {operator} more" for operator, _ in new]
    return tuple(sorted(texts)) if len(texts) <= _MOST else ()


def _list_nodes(model: onnx.ModelProto) -> Iterator[_Node]:
    import onnx

    opsets = {each.domain: each.version for each in model.opset_import}
    for graph in walk_graphs(model.graph):
        for node in graph.node:
            if node.op_type == "Constant":  # a weight
                continue
            values: dict[str, Any] = {}
            if onnx.defs.has(node.op_type, node.domain):
                schema = onnx.defs.get_schema(node.op_type, opsets.get(node.domain, 1), node.domain)
                values = {name: each.default_value for name, each in schema.attributes.items()}
            values |= {each.name: each for each in node.attribute}
            known = {name: _read(value) for name, value in values.items() if value.type}
            yield (
                node.op_type,
                frozenset(item for item in known.items() if item[0] not in _MEANINGLESS),
            )


def _read(attribute: onnx.AttributeProto) -> str:
    import onnx

    kinds = onnx.AttributeProto
    if attribute.type in (kinds.GRAPH, kinds.GRAPHS, kinds.TENSOR, kinds.SPARSE_TENSOR):
        return ""  # compared node by node, or as weights
    value = onnx.helper.get_attribute_value(attribute)
    return value.decode() if isinstance(value, bytes) else str(value)
