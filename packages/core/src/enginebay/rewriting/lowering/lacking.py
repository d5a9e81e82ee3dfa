"""The operators of a lowered graph that an engine does not have, and where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import LackingOperatorsError
from enginebay.rewriting.lowering.operators import are_complex, has_complex, is_among, name_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from torch.export import ExportedProgram

#: What complex numbers are made of, and taken apart by, where another operator is in the way.
_PARTS = ("aten.complex", "aten.view_as_real")

#: The places of an operator that a message names.
_NAMED = 2


def check_operators(program: ExportedProgram, operators: Collection[str]) -> None:
    """Check that an engine has every operator of a program.

    Raises:
        LackingOperatorsError: It does not; all of them, with the modules and lines of the model.
    """
    import torch

    lacking: dict[str, list[Any]] = {}
    real_only = not has_complex(operators)
    for node in program.graph.nodes:
        target = node.target
        if not isinstance(target, torch._ops.OpOverload):
            continue
        name = name_of(target)
        if real_only and _is_complex(node) and name not in _PARTS:
            lacking.setdefault(f"{name} of complex numbers", []).append(node)
        elif not is_among(target, operators):
            lacking.setdefault(name, []).append(node)
    if any(name.endswith("complex numbers") for name in lacking):
        lacking = {name: nodes for name, nodes in lacking.items() if name not in _PARTS}
    if not lacking:
        return
    parts = [f"{name}{_places(nodes)}" for name, nodes in lacking.items()]
    first = next(iter(lacking)).partition(" ")[0]
    count = "an operator" if len(lacking) == 1 else f"{len(lacking)} operators"
    raise LackingOperatorsError(
        f"the engine lacks {count}: {'; '.join(parts)}",
        hint=f'declare what it does with others, @rewriters.lowering("{first}"): '
        "docs/write-a-rewriter.md",
        operators={
            name: tuple(dict.fromkeys(filter(None, map(_module, nodes))))
            for name, nodes in lacking.items()
        },
    )


def _is_complex(node: Any) -> bool:
    """Return True for a node whose value or one of whose inputs is complex."""
    return are_complex([each.meta.get("val") for each in (node, *node.all_input_nodes)], None)


def _places(nodes: list[Any]) -> str:
    """The number of nodes and their first places, as far as they are known."""
    places = list(dict.fromkeys(filter(None, map(_place, nodes))))
    named = "; ".join(places[:_NAMED]) + ("; …" if len(places) > _NAMED else "")
    count = f"{len(nodes)} times" if len(nodes) > 1 else ""
    text = ": ".join(filter(None, (count, named)))
    return f" ({text})" if text else ""


def _place(node: Any) -> str:
    module = _module(node)
    return ", ".join(filter(None, (f"module {module}" if module else "", _line(node))))


def _module(node: Any) -> str:
    """The path of the module that a node comes from; empty where it is the model itself."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]).removeprefix("model").removeprefix(".") if stack else ""


def _line(node: Any) -> str:
    """The file and the line that a node comes from."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    frames = [line.split('"') for line in lines if line.startswith('File "')]
    if not frames:
        return ""
    _, file, place = frames[-1][:3]
    return f"{file.rpartition('/')[2]}:{place.split()[2].rstrip(',')}"
