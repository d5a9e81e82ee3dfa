"""Decomposition of a program by torch, with workarounds for two torch bugs with constants."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from enginebay import torch_private
from enginebay.errors import ExportError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor
    from torch.export import ExportedProgram

    from enginebay.rewriting.lowering.graph_values import GraphValues
    from enginebay.torch_private import OperatorBase

    Tensors = Mapping[str, Tensor]


def decompose(
    program: ExportedProgram, table: dict[OperatorBase, Callable[..., object]], values: GraphValues
) -> ExportedProgram:
    """Return a program in which decompositions replace the operators in ``table``.

    Args:
        program: The program. Constants that decompositions create are added to this program and to
            the returned program.
        table: Operator → the function that computes the operator by other operators.
        values: The constants of the program. The fake tensors that stand for these constants in the
            new graph are stored in ``values``.

    Raises:
        ExportError: A constant of the program has no data.
    """
    from enginebay.rewriting.patches import replace_functions

    # torch makes a new constant an input of the program but forgets its value. The original and
    # the new program share their constants, so that the value is added to the original.
    def lift(original: Callable[..., Tensors], /, *args: object) -> Tensors:
        constants = original(*args)
        program.constants.update(constants)
        return constants

    def make_fake(original: Callable[..., Tensors], /, *args: object) -> Tensors:
        fake_tensors = original(*args)
        values.set_fake_tensors(fake_tensors)
        return fake_tensors

    _check_constants(program)
    with ExitStack() as undo:
        replace_functions(
            undo,
            {
                torch_private.name_of_constant_lifter(): lift,
                torch_private.name_of_weight_faker(): make_fake,
            },
        )
        decomposed: ExportedProgram = program.run_decompositions(table)
    return decomposed


def _check_constants(program: ExportedProgram) -> None:
    """Raise an ExportError for a constant without data, with which torch would crash (SIGSEGV).

    In strict mode, torch.export turns ``parameter.data`` into such a constant. In its default mode,
    torch.export itself raises an error.
    """
    for name, value in program.constants.items():
        if torch_private.is_fake(value):
            message = f"torch.export lost the values of the constant '{name}'"
            raise ExportError(
                message, hint="in forward, use the parameter itself instead of its .data"
            )
