"""Unsupported operators, which a preview lists with their modules and available rewriters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay.authors import find_rewriters
from enginebay.authors.files import Draft, Obstacle, read_torchscript, source_modules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def explain_lacking(ir: eb.IRModel, lacking: Mapping[str, str]) -> Iterator[Obstacle]:
    """Yield an obstacle for each node or operator in a backend's list of unsupported operators."""
    if not lacking:
        return
    if ir.kind == "onnx":
        yield from _onnx_obstacles(ir, lacking)
    else:
        modules = _script_modules(ir, lacking) if ir.kind == "torchscript" else {}
        for operator, reason in lacking.items():
            yield Obstacle(operator=operator, modules=modules.get(operator, ()), reason=reason)


def _onnx_obstacles(ir: eb.IRModel, lacking: Mapping[str, str]) -> Iterator[Obstacle]:
    import onnx

    modules = source_modules(ir.path)
    graph = onnx.load(ir.path, load_external_data=False).graph
    for node in graph.node:
        if node.name in lacking and node.domain != Draft.placeholder_domain:
            operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            # The node's own name if its module is unknown.
            module = modules.get(node.name, node.name)
            yield Obstacle(operator=operator, modules=(module,), reason=lacking[node.name])


def _script_modules(ir: eb.IRModel, operators: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return operator → the modules of a TorchScript file that call the operator directly."""
    module, _ = read_torchscript(ir.path)
    callers: dict[str, dict[str, None]] = {}
    for name, inner in module.named_modules():
        # A script module without a forward method has no graph.
        if not hasattr(inner, "graph"):
            continue
        # Enginebay exports a module of its own that contains the model.
        path = name.removeprefix("model").removeprefix(".")
        for node in inner.graph.nodes():
            if node.kind() in operators:
                callers.setdefault(node.kind(), {})[path] = None
    return {operator: tuple(paths) for operator, paths in callers.items()}


def merge_obstacles(obstacles: Iterable[Obstacle], backend: str) -> Iterator[Obstacle]:
    """Yield one obstacle per operator: with all its reasons and modules, and with a rewriter."""
    groups: dict[str, list[Obstacle]] = {}
    for obstacle in obstacles:
        groups.setdefault(obstacle.operator, []).append(obstacle)
    for operator, group in groups.items():
        yield Obstacle(
            operator=operator,
            modules=tuple(dict.fromkeys(path for item in group for path in item.modules)),
            reason="; ".join(dict.fromkeys(item.reason for item in group)),
            rewriter=_find_replacement(backend, operator),
        )


def _find_replacement(backend: str, operator: str) -> str:
    """Return the name and condition of a rewriter for an operator; empty if there is none."""
    base = operator.rpartition("::")[2].lower()
    for ir in eb.get_backend(backend).info.irs:
        for rewriter, winner in find_rewriters(backend, ir).items():
            # The name of the replaced operator, without namespace and overload: aten.max.dim
            parts = rewriter.name.split(".")
            name = parts[1] if rewriter.kind == "lowering" else parts[-1]
            if winner is None and name.lower() == base:
                return f"{rewriter.name} ({rewriter.condition})"
    return ""
