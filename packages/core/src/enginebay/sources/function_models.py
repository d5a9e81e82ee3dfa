"""Modules made from plain functions: the forward of such a module calls the function.

Import this file lazily: it imports torch at its top, since the class derives from ``nn.Module``.
"""

from __future__ import annotations

import dis
import inspect
from functools import partial
from typing import TYPE_CHECKING

from torch import nn

from enginebay import torch_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class FunctionModel(nn.Module):
    """A module whose forward is a function.

    The modules and parameters that the function uses through its bound object, closure or globals
    are registered here, so that they are set to evaluation mode and exported as weights.

    Attributes:
        function_name: The name of the function, for file names.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        # A compiled function cannot be captured, but the original one can.
        self.forward = torch_private.unwrap_compiled_function(function)
        self.function_name = getattr(function, "__name__", type(function).__name__)
        for number, used in enumerate(_find_used_modules(self.forward)):
            if isinstance(used, nn.Module):
                self.add_module(f"used_{number}", used)
            else:
                self.register_parameter(f"used_{number}", used)


def _find_used_modules(function: Callable[..., object]) -> Iterator[nn.Module | nn.Parameter]:
    """Yield the modules and parameters in a function's bound object, closure and globals."""
    while isinstance(function, partial):
        function = function.func
    owner = getattr(function, "__self__", function)
    candidates = (
        [owner] if isinstance(owner, nn.Module) else [*getattr(owner, "__dict__", {}).values()]
    )
    plain = inspect.unwrap(getattr(function, "__func__", function))
    if inspect.isfunction(plain):
        variables = inspect.getclosurevars(plain)
        # getclosurevars() also reports attribute names: a global `linear` for `net.linear`.
        loaded = {
            step.argval for step in dis.get_instructions(plain) if step.opname == "LOAD_GLOBAL"
        }
        candidates += variables.nonlocals.values()
        candidates += [value for name, value in variables.globals.items() if name in loaded]
    # By id, since the values need not be hashable.
    for value in {id(item): item for item in candidates}.values():
        if isinstance(value, nn.Module | nn.Parameter):
            yield value
