"""Placeholder nodes for operators that the default ONNX exporter cannot translate.

A model with such operators can then be exported, to check whether an engine supports all other
operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay import torch_private
from enginebay.rewriting.dynamo_graph import SymbolicGraph, strip_annotations, unwrap_values

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from torch.export import ExportedProgram
    from torch.fx import Node

#: Run-time checks, which the exporter removes.
_CHECKS = ("aten::_assert", "aten::sym_constrain_range")


def find_untranslated(program: ExportedProgram, translated: Collection[str]) -> list[Node]:
    """Decompose a program as the default exporter does; return the nodes that it cannot translate.

    Args:
        program: The captured program to decompose.
        translated: Further operators to leave out, which symbolic rewriters translate, such as
            ``aten::copy``.
    """
    registry = torch_private.onnx_registry()
    decomposed = torch_private.decompose_for_onnx(program, registry)
    return [
        node
        for node in decomposed.graph.nodes
        if node.op == "call_function"
        and (name := operator_name(node))
        and name not in translated
        and not name.startswith(_CHECKS)
        and not torch_private.is_translated(node, registry)
    ]


def operator_name(node: Node) -> str:
    """Return the name of a node's operator, such as ``aten::relu``; empty for other functions."""
    schema = torch_private.schema_of(node.target)
    return "" if schema is None else str(schema.name)


def placeholder_translations(
    nodes: Iterable[Node], domain: str
) -> dict[Callable[..., object], Callable[..., object]]:
    """Return for each node's operator a function that adds a node of the domain."""
    return {node.target: _make_placeholder(node.target, domain) for node in nodes}  # type: ignore[misc]  # of call_function


def _make_placeholder(overload: Any, domain: str) -> Callable[..., object]:
    schema = torch_private.schema_of(overload)
    assert schema is not None  # it is an operator
    name = schema.name.replace("::", ".")
    outputs = max(1, len(schema.returns))

    def translation(*args: object, **kwargs: object) -> object:
        import onnx_ir

        from enginebay.rewriting.dynamo_graph import wrap_values

        inputs = [*args, *kwargs.values()]
        tensors = [wrap_values(each) for each in inputs if isinstance(each, onnx_ir.Value)]
        graph = SymbolicGraph(name)
        return unwrap_values(graph.op(f"{domain}::{name}", *tensors, outputs=outputs))

    return strip_annotations(translation)
