"""Decomposition of a program by torch, with workarounds for two torch bugs with constants."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from enginebay.errors import ExportError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor
    from torch._ops import OperatorBase
    from torch.export import ExportedProgram

    from enginebay.rewriting.lowering.graph_values import GraphValues

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
    # Loaded, so that the functions to replace are found by name.
    import torch._export.passes.lift_constants_pass
    import torch.export._trace  # noqa: F401

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
        replace_functions(undo, {_LIFT: lift, _MAKE_FAKE: make_fake})
        decomposed: ExportedProgram = program.run_decompositions(table)
    return decomposed


def _check_constants(program: ExportedProgram) -> None:
    """Raise an ExportError for a constant without data, with which torch would crash (SIGSEGV).

    In strict mode, torch.export turns ``parameter.data`` into such a constant. In its default mode,
    torch.export itself raises an error.
    """
    from torch._subclasses.fake_tensor import FakeTensor

    for name, value in program.constants.items():
        if isinstance(value, FakeTensor):
            message = f"torch.export lost the values of the constant '{name}'"
            raise ExportError(
                message, hint="in forward, use the parameter itself instead of its .data"
            )


#: torch's function that turns constants into inputs; private, as of torch 2.13.
_LIFT = "torch._export.passes.lift_constants_pass._materialize_and_lift_constants"

#: torch's function that makes fake tensors of weights and constants; private too.
_MAKE_FAKE = "torch.export._trace._fakify_params_buffers"
