"""torch's way to take a program apart, with one repair, one check, and its constants known."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from enginebay.errors import ExportError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.export import ExportedProgram

    from enginebay.rewriting.lowering.context import GraphValues


def decompose(
    program: ExportedProgram, table: dict[Any, Any], values: GraphValues
) -> ExportedProgram:
    """Replace operators by what a table says.

    A constant that a decomposition brings along torch makes an input of the program, and forgets
    its value. The program that was given gets it: both have the same constants. ``values``, which
    are known of these, follow them into the new graph.

    Raises:
        ExportError: A constant of the program has no numbers.
    """
    # For the names to be found.
    import torch._export.passes.lift_constants_pass
    import torch.export._trace  # noqa: F401

    from enginebay.rewriting.patches import replace_functions

    def lift(original: Callable[..., Any], /, *args: Any) -> Any:
        constants = original(*args)
        program.constants.update(constants)
        return constants

    def stand_in(original: Callable[..., Any], /, *args: Any) -> Any:
        stand_ins = original(*args)
        values.follow(stand_ins)
        return stand_ins

    _check_constants(program)
    with ExitStack() as undo:
        replace_functions(undo, {_LIFT: lift, _STAND_IN: stand_in})
        found: ExportedProgram = program.run_decompositions(table)
    return found


def _check_constants(program: ExportedProgram) -> None:
    """Refuse a constant without numbers, which torch's own way would end with SIGSEGV for.

    The strict mode makes them of the ``data`` of parameters; the default one refuses them itself.
    """
    from torch._subclasses.fake_tensor import FakeTensor

    for name, value in program.constants.items():
        if isinstance(value, FakeTensor):
            message = f"torch.export lost the numbers of the constant '{name}'"
            raise ExportError(message, hint="use the parameter itself where forward reads its data")


#: torch's function that makes inputs of constants; private, as of torch 2.13.
_LIFT = "torch._export.passes.lift_constants_pass._materialize_and_lift_constants"

#: torch's function that makes tensors without numbers of weights and constants; private likewise.
_STAND_IN = "torch.export._trace._fakify_params_buffers"
