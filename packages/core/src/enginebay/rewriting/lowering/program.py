"""Capture of a model as a program, and lowering of the whole program."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from enginebay import torch_private
from enginebay.rewriting.lowering.complex_pairs import replace_complex_views
from enginebay.rewriting.lowering.decomposition import decompose
from enginebay.rewriting.lowering.exported_program import build_program
from enginebay.rewriting.lowering.folding import fold_constants, fold_lacking
from enginebay.rewriting.lowering.graph_values import GraphValues
from enginebay.rewriting.lowering.lowered_operator import strip_graph_reports
from enginebay.rewriting.lowering.operator_check import check_operators
from enginebay.rewriting.lowering.operators import are_complex, has_complex, is_composite, is_listed
from enginebay.rewriting.lowering.torchscript_capture import script_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch import Tensor, nn
    from torch.export import ExportedProgram

    from enginebay.rewriting.lowering.operators import Known
    from enginebay.rewriting.lowering.rewriters import LoweringRewriters
    from enginebay.torch_private import OpOverload


def capture(module: nn.Module, inputs: Sequence[Tensor]) -> ExportedProgram:
    """Return the captured program of a module, which may also be a TorchScript module.

    Args:
        module: The module to capture.
        inputs: Example inputs of the module; the program is valid only for their sizes.
    """
    import torch

    with torch.no_grad():
        if isinstance(module, torch.jit.ScriptModule):
            return build_program(script_graph(module, inputs), inputs)
        program: ExportedProgram = torch.export.export(module, tuple(inputs))
        return program


def lower_program(
    program: ExportedProgram, lowerings: LoweringRewriters, known: Known | None = None
) -> ExportedProgram:
    """Return a program with the active lowerings applied to the operators.

    If ``lowerings.operators`` lists the operators that the engine supports, torch's own
    decompositions replace every other operator that has no lowering.

    Args:
        program: The captured program to lower.
        lowerings: The lowerings of the innermost ``rewrite`` context.
        known: A function that returns True for an operator that the exporter translates; None if
            there is no exporter, or if the exporter translates all operators.

    Raises:
        RewriterError: A lowering raises, or returns a result of another dtype or shape.
        LackingOperatorsError: The lowered program has operators that are not in
            ``lowerings.operators``.
    """
    import torch

    operators = lowerings.operators
    decompositions = {} if operators is None else _decompositions(operators)
    table: dict[Any, Any] = dict(decompositions)
    if known is not None:
        table.update(_decompose_composites(program, known))
    # Decompositions may run torch.vmap, which fails on a check of a dynamic size.
    _remove_assertions(program)
    values = GraphValues.from_program(program)
    table.update(lowerings.table(values, decompositions, known))
    with strip_graph_reports():
        lowered = decompose(program, table, values)
    if known is not None and not known(torch.ops.aten.complex.default, True):
        replace_complex_views(lowered)
    if operators is None:
        if known is not None:
            fold_lacking(lowered, known)
        return lowered
    _remove_assertions(lowered)
    if not has_complex(operators):
        replace_complex_views(lowered)
    fold_constants(lowered, operators)
    check_operators(lowered, operators)
    return lowered


# Cached: the tables have more than 1,000 entries, and filtering them takes 0.1 s.
@cache
def _decompositions(operators: frozenset[str]) -> dict[OpOverload, Callable[..., object]]:
    """Return torch's decompositions of all operators that are not among the engine's.

    Args:
        operators: The operators that the engine supports; prims are never among them.
    """
    import torch

    table: dict[Any, Any] = dict(torch_private.decompositions_without_prims())
    defaults: Any = torch.export.default_decompositions()
    table.update(defaults.items())
    # The only prim in the other decompositions becomes _to_copy, whose own decomposition would
    # turn it into the prim again.
    table[torch.ops.prims.convert_element_type.default] = _convert_dtype
    del table[torch.ops.aten._to_copy.default]
    return {
        overload: function
        for overload, function in table.items()
        if torch_private.is_operator(overload) and not is_listed(overload, operators)
    }


def _decompose_composites(
    program: ExportedProgram, known: Known
) -> dict[OpOverload, Callable[..., object]]:
    """Return the decompositions of those composite operators that the exporter cannot translate."""
    import torch

    defaults: Any = torch.export.default_decompositions()
    table: dict[OpOverload, Callable[..., object]] = {}
    for node in program.graph.nodes:
        target = node.target
        if torch_private.is_operator(target) and is_composite(target):
            values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
            if target in defaults and not known(target, are_complex(values, None)):
                table[target] = defaults[target]
    return table


def _convert_dtype(x: Tensor, dtype: torch.dtype) -> Tensor:
    import torch

    converted: Tensor = torch.ops.aten._to_copy.default(x, dtype=dtype)
    return converted


def _remove_assertions(program: ExportedProgram) -> None:
    for node in list(program.graph.nodes):
        if str(node.target).startswith("aten._assert") and not node.users:
            program.graph.erase_node(node)
