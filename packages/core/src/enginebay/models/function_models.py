"""Plain functions as models: the function is the forward, what it uses are its submodules.

Imported only where torch is about to be used: the class needs it at import.
"""

from __future__ import annotations

import dis
import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class FunctionModel(nn.Module):
    """A module whose forward is a function.

    The modules and parameters that the function uses, as a method of a module does, or from around
    it, belong to this one: they are put into evaluation mode, and exported as weights.

    Attributes:
        function_name: Its name, for files.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        # A compiled function cannot be captured; the one that it was compiled from can.
        self.forward = getattr(function, "_torchdynamo_orig_callable", function)
        self.function_name = getattr(function, "__name__", type(function).__name__)
        for number, used in enumerate(_used(self.forward)):
            if isinstance(used, nn.Module):
                self.add_module(f"used_{number}", used)
            else:
                self.register_parameter(f"used_{number}", used)


def _used(function: Any) -> Iterator[nn.Module | nn.Parameter]:
    """What a function finds around it, and the object whose method it is, or that object's own."""
    while isinstance(function, partial):
        function = function.func
    owner = getattr(function, "__self__", function)
    around = [owner] if isinstance(owner, nn.Module) else [*getattr(owner, "__dict__", {}).values()]
    plain = inspect.unwrap(getattr(function, "__func__", function))
    if inspect.isfunction(plain):
        found = inspect.getclosurevars(plain)
        # Python counts an attribute's name as a global's: net.linear would be linear too.
        read = {one.argval for one in dis.get_instructions(plain) if one.opname == "LOAD_GLOBAL"}
        around += found.nonlocals.values()
        around += [value for name, value in found.globals.items() if name in read]
    for value in {id(each): each for each in around}.values():
        if isinstance(value, nn.Module | nn.Parameter):
            yield value
