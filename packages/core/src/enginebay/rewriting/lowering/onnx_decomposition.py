"""The decomposition step of torch's default ONNX exporter, with lowerings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay import torch_private
from enginebay.rewriting.lowering.decomposition import decompose
from enginebay.rewriting.lowering.folding import fold_lacking
from enginebay.rewriting.lowering.graph_values import GraphValues
from enginebay.rewriting.lowering.lowered_operator import strip_graph_reports
from enginebay.rewriting.patches import replace_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack

    from torch.export import ExportedProgram

    from enginebay.rewriting.lowering.operators import Known
    from enginebay.torch_private import ONNXRegistry, OpOverload

    #: Takes a graph's constants, the exporter's decompositions, and what it translates.
    BuildTable = Callable[[GraphValues, Mapping[Any, Any], Known], Mapping[Any, Any]]


def lower_in_onnx_exporter(undo: ExitStack, build_table: BuildTable) -> None:
    """Let the default ONNX exporter use lowerings in this thread.

    Args:
        undo: An exit stack that the caller must close; it reverts the change.
        build_table: Returns the lowerings for one graph, as a decomposition table.
    """

    def decompose_and_lower(
        original: object,  # noqa: ARG001  # it builds its table itself, and accepts no other
        /,
        program: ExportedProgram,
        registry: ONNXRegistry,
    ) -> ExportedProgram:
        return _decompose_and_lower(program, registry, build_table)

    replace_functions(undo, {torch_private.name_of_onnx_decomposer(): decompose_and_lower})


def _decompose_and_lower(
    program: ExportedProgram, registry: ONNXRegistry, build_table: BuildTable
) -> ExportedProgram:
    """Apply the exporter's decompositions and the lowerings; return the new program."""
    translated = torch_private.translated_overloads(registry)
    table = torch_private.onnx_decompositions(translated)

    def known(overload: OpOverload, is_complex: bool) -> bool:
        # The few translations for complex numbers are not used: all of these are lowered.
        return not is_complex and overload in translated

    with strip_graph_reports():
        values = GraphValues.from_program(program)
        table.update(build_table(values, table, known).items())
        lowered = decompose(program, table, values)
    fold_lacking(lowered, known)
    return lowered
