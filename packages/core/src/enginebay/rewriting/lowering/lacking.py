"""The operators of a lowered graph that an engine does not have, and where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import LackingOperatorsError
from enginebay.rewriting.lowering.operators import is_among, name_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from torch.export import ExportedProgram

#: The places of an operator that a message names.
_NAMED = 2


def check_operators(program: ExportedProgram, operators: Collection[str]) -> None:
    """Check that an engine has every operator of a program.

    Raises:
        LackingOperatorsError: It does not; all of them, with the modules and lines of the model.
    """
    import torch

    lacking: dict[str, list[Any]] = {}
    for node in program.graph.nodes:
        target = node.target
        if isinstance(target, torch._ops.OpOverload) and not is_among(target, operators):
            lacking.setdefault(name_of(target), []).append(node)
    if not lacking:
        return
    parts = [f"{name}{_places(nodes)}" for name, nodes in lacking.items()]
    count = "an operator" if len(lacking) == 1 else f"{len(lacking)} operators"
    raise LackingOperatorsError(
        f"the engine lacks {count}: {'; '.join(parts)}",
        hint=f'declare what it does with others, @rewriters.lowering("{next(iter(lacking))}"): '
        "docs/write-a-rewriter.md",
        operators={
            name: tuple(dict.fromkeys(filter(None, map(_module, nodes))))
            for name, nodes in lacking.items()
        },
    )


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
