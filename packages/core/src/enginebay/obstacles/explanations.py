"""Unsupported operators, which a preview lists with their modules and available rewriters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.exporters import Obstacle
from enginebay.ir import source_modules
from enginebay.operations import get_backend, rewriters_for, target_of
from enginebay.rewriting import PLACEHOLDER_DOMAIN, list_rewriters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from enginebay.errors import LackingOperatorsError
    from enginebay.ir import IRModel
    from enginebay.rewriting import Rewriter


def explain_lacking(ir: IRModel, lacking: Mapping[str, str]) -> Iterator[Obstacle]:
    """Yield an obstacle for each node or operator in a backend's list of unsupported operators."""
    if not lacking:
        return
    if ir.kind == "onnx":
        yield from _onnx_obstacles(ir, lacking)
    else:
        modules = _script_modules(ir, lacking) if ir.kind == "torchscript" else {}
        for operator, reason in lacking.items():
            yield Obstacle(operator=operator, modules=modules.get(operator, ()), reason=reason)


def list_unlowered(error: LackingOperatorsError) -> Iterator[Obstacle]:
    """Yield an obstacle for each operator that the error lists because no lowering replaces it."""
    for operator, modules in error.operators.items():
        name = operator.replace(".", "::", 1)
        yield Obstacle(operator=name, modules=modules, reason="the engine does not support it")


def _onnx_obstacles(ir: IRModel, lacking: Mapping[str, str]) -> Iterator[Obstacle]:
    import onnx

    modules = source_modules(ir.path)
    graph = onnx.load(ir.path, load_external_data=False).graph
    for node in graph.node:
        if node.name in lacking and node.domain != PLACEHOLDER_DOMAIN:
            operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            # The node's own name if its module is unknown.
            module = modules.get(node.name, node.name)
            yield Obstacle(operator=operator, modules=(module,), reason=lacking[node.name])


def _script_modules(ir: IRModel, operators: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return operator → the modules of a TorchScript file that call the operator directly."""
    from enginebay.ir import read_torchscript

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


def find_replacement(backend: str, operator: str) -> str:
    """Return the name and condition of a rewriter for an operator; empty if there is none."""
    base = operator.rpartition("::")[2].lower()
    engine = get_backend(backend)
    for ir in engine.info.irs:
        sets = rewriters_for(target_of(backend, ir))
        for rewriter, winner in list_rewriters(sets, backend=backend, ir=ir).items():
            if winner is None and _replaced_operator(rewriter) == base:
                return f"{rewriter.name} ({rewriter.condition})"
    return ""


def _replaced_operator(rewriter: Rewriter) -> str:
    """Return the name of the operator that a rewriter replaces, without namespace and overload."""
    if rewriter.kind == "lowering":  # aten.max.dim
        return rewriter.name.split(".")[1].lower()
    return rewriter.name.rpartition(".")[2].lower()
