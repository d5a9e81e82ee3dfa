"""torch's way to take a program apart, with one repair."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.export import ExportedProgram


def decompose(program: ExportedProgram, table: dict[Any, Any]) -> ExportedProgram:
    """Replace operators by what a table says.

    A constant that a decomposition brings along torch makes an input of the program, and forgets
    its value. The program that was given gets it: both have the same constants.
    """
    import torch._export.passes.lift_constants_pass  # noqa: F401  # for the name to be found

    from enginebay.rewriting.patches import replace_functions

    def lift(original: Callable[..., Any], /, *args: Any) -> Any:
        constants = original(*args)
        program.constants.update(constants)
        return constants

    with ExitStack() as undo:
        replace_functions(undo, {_LIFT: lift})
        found: ExportedProgram = program.run_decompositions(table)
    return found


#: torch's function that makes inputs of constants; private, as of torch 2.13.
_LIFT = "torch._export.passes.lift_constants_pass._materialize_and_lift_constants"
