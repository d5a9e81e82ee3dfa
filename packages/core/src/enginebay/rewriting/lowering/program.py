"""A captured graph, lowered as a whole."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.lowering.calls import plain_errors
from enginebay.rewriting.lowering.context import GraphValues
from enginebay.rewriting.lowering.decomposition import decompose
from enginebay.rewriting.lowering.exported import exported
from enginebay.rewriting.lowering.folding import fold_constants, fold_lacking
from enginebay.rewriting.lowering.lacking import check_operators
from enginebay.rewriting.lowering.operators import are_complex, has_complex, is_among
from enginebay.rewriting.lowering.pairs import complex_as_pairs
from enginebay.rewriting.lowering.script import script_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor
    from torch._ops import OpOverload
    from torch.export import ExportedProgram

    from enginebay.rewriting.lowering.operators import Known
    from enginebay.rewriting.lowering.rewriters import LoweringRewriters


def capture(module: Any, inputs: Sequence[Tensor]) -> ExportedProgram:
    """Capture a module; TorchScript too, which torch.export by itself refuses.

    Args:
        module: The module, or TorchScript.
        inputs: Its example inputs, whose sizes the result is bound to.
    """
    import torch

    with torch.no_grad():
        if isinstance(module, torch.jit.ScriptModule):
            return exported(script_graph(module, inputs), inputs)
        program: ExportedProgram = torch.export.export(module, tuple(inputs))
        return program


def lower_program(
    program: ExportedProgram, lowerings: LoweringRewriters, known: Known | None = None
) -> ExportedProgram:
    """Replace the operators of a graph by what their lowerings say.

    Where the engine's operators are known, all others are lowered: by torch's own decompositions
    where no lowering is declared.

    Args:
        program: The graph.
        lowerings: The active lowerings.
        known: As for :meth:`LoweringRewriters.table`.

    Raises:
        RewriterError: A lowering is wrong.
        LackingOperatorsError: Operators are left that the engine does not have.
    """
    import torch

    operators = lowerings.operators
    decompositions = {} if operators is None else _decompositions(operators)
    table: dict[Any, Any] = dict(decompositions)
    if known is not None:
        table.update(_composites(program, known))
    _without_checks(program)  # torch.vmap, which decomposing runs, knows no open sizes in them
    values = GraphValues.of(program)
    table.update(lowerings.table(values, decompositions, known))
    with plain_errors():
        lowered = decompose(program, table, values)
    if known is not None and not known(torch.ops.aten.complex.default, True):
        complex_as_pairs(lowered)
    if operators is None:
        if known is not None:
            fold_lacking(lowered, known)
        return lowered
    _without_checks(lowered)
    if not has_complex(operators):
        complex_as_pairs(lowered)
    fold_constants(lowered, operators)
    check_operators(lowered, operators)
    return lowered


@cache
def _decompositions(operators: frozenset[str]) -> dict[OpOverload, Callable[..., Any]]:
    """Return torch's decompositions of all operators but those that the engine has."""
    import torch
    from torch._decomp import decomposition_table

    # Those of torch._refs end in prims, which no engine has.
    table: dict[Any, Any] = {
        overload: function
        for overload, function in decomposition_table.items()
        if not function.__module__.startswith("torch._refs")
    }
    defaults: Any = torch.export.default_decompositions()
    table.update(defaults.items())
    # The one prim that decompositions leave, and what would lead back to it.
    table[torch.ops.prims.convert_element_type.default] = _converted
    del table[torch.ops.aten._to_copy.default]
    return {
        overload: function
        for overload, function in table.items()
        if isinstance(overload, torch._ops.OpOverload) and not is_among(overload, operators)
    }


def _composites(program: ExportedProgram, known: Known) -> dict[OpOverload, Callable[..., Any]]:
    """The operators of a program that are made of others, and that the exporter lacks."""
    import torch

    defaults: Any = torch.export.default_decompositions()
    found: dict[OpOverload, Callable[..., Any]] = {}
    for node in program.graph.nodes:
        target = node.target
        if isinstance(target, torch._ops.OpOverload) and target._can_decompose():
            values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
            if target in defaults and not known(target, are_complex(values, None)):
                found[target] = defaults[target]
    return found


def _converted(x: Tensor, dtype: Any) -> Tensor:
    import torch

    converted: Tensor = torch.ops.aten._to_copy.default(x, dtype=dtype)
    return converted


def _without_checks(program: ExportedProgram) -> None:
    """Remove the checks of dtypes and sizes, which no node uses."""
    for node in list(program.graph.nodes):
        if str(node.target).startswith("aten._assert") and not node.users:
            program.graph.erase_node(node)
