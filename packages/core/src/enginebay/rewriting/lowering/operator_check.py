"""Check that the engine supports every operator of a lowered graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay import torch_private
from enginebay.errors import LackingOperatorsError
from enginebay.rewriting.lowering.operators import (
    are_complex,
    has_complex,
    is_listed,
    operator_name,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from torch.export import ExportedProgram
    from torch.fx import Node

#: Conversions from and to complex tensors. Lowerings leave them around a complex operator that has
#: no lowering; only this operator is reported.
_COMPLEX_VIEWS = ("aten.complex", "aten.view_as_real")

#: The maximum number of modules and lines that a message lists for one operator.
_MAX_PLACES = 2


def check_operators(program: ExportedProgram, operators: Collection[str]) -> None:
    """Check that the engine supports every operator of a program.

    Args:
        program: The lowered program.
        operators: The operators that the engine supports.

    Raises:
        LackingOperatorsError: The engine does not support some operators; the message lists all of
            them with the modules and lines of the model that call them.
    """
    lacking: dict[str, list[Node]] = {}
    real_only = not has_complex(operators)
    for node in program.graph.nodes:
        target = node.target
        if not torch_private.is_operator(target):
            continue
        name = operator_name(target)
        if real_only and _is_complex(node) and name not in _COMPLEX_VIEWS:
            lacking.setdefault(f"{name} of complex numbers", []).append(node)
        elif not is_listed(target, operators):
            lacking.setdefault(name, []).append(node)
    if any(name.endswith("complex numbers") for name in lacking):
        lacking = {name: nodes for name, nodes in lacking.items() if name not in _COMPLEX_VIEWS}
    if not lacking:
        return
    parts = [f"{name}{_format_places(nodes)}" for name, nodes in lacking.items()]
    first = next(iter(lacking)).partition(" ")[0]
    count = "an operator" if len(lacking) == 1 else f"{len(lacking)} operators"
    raise LackingOperatorsError(
        f"the engine does not support {count}: {'; '.join(parts)}",
        hint=f'declare @rewriters.lowering("{first}"), see docs/how-to/write-a-rewriter.md',
        operators={
            name: tuple(dict.fromkeys(filter(None, map(_module_path, nodes))))
            for name, nodes in lacking.items()
        },
    )


def _is_complex(node: Node) -> bool:
    return are_complex([each.meta.get("val") for each in (node, *node.all_input_nodes)], None)


def _format_places(nodes: list[Node]) -> str:
    places = list(dict.fromkeys(filter(None, map(_format_place, nodes))))
    listed = "; ".join(places[:_MAX_PLACES]) + ("; …" if len(places) > _MAX_PLACES else "")
    count = f"{len(nodes)} times" if len(nodes) > 1 else ""
    text = ": ".join(filter(None, (count, listed)))
    return f" ({text})" if text else ""


def _format_place(node: Node) -> str:
    module = _module_path(node)
    return ", ".join(filter(None, (f"module {module}" if module else "", _source_line(node))))


def _module_path(node: Node) -> str:
    """Return the path of a node's module, such as ``neck.0``; empty for the model itself."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]).removeprefix("model").removeprefix(".") if stack else ""


def _source_line(node: Node) -> str:
    """Return the line of code that created a node, such as ``model.py:12``; empty if unknown."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    frames = [line.split('"') for line in lines if line.startswith('File "')]
    if not frames:
        return ""
    _, file, line = frames[-1][:3]  # File "model.py", line 12, in forward
    return f"{file.rpartition('/')[2]}:{line.split()[2].rstrip(',')}"
