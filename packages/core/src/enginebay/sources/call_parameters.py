"""The parameters of a model's forward, and of functions that build models."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

from enginebay import torch_private
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import nn


def forward_parameters(model: nn.Module) -> inspect.Signature:
    """Return the parameters, without ``self``, of a PyTorch or TorchScript model's ``forward``."""
    try:
        return inspect.signature(model.forward)
    except ValueError:
        return _script_parameters(model)


def script_methods(model: Any) -> list[str]:
    """Return the names of a TorchScript module's methods, except hidden ones."""
    names = torch_private.script_method_names(model)
    return sorted(name for name in names if not name.startswith("_"))


def required_parameters(function: Callable[..., object]) -> list[str]:
    """Return a function's required parameters; empty if :mod:`inspect` finds no signature."""
    try:
        return required_names(inspect.signature(function))
    except (ValueError, TypeError):
        return []


def required_names(signature: inspect.Signature) -> list[str]:
    """Return the names of the parameters without a default value."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    params = signature.parameters.values()
    return [p.name for p in params if p.default is p.empty and p.kind not in variadic]


def _script_parameters(model: Any) -> inspect.Signature:
    # inspect cannot see the parameters of a TorchScript module that was loaded from a file.
    arguments = [arg for arg in model.forward.schema.arguments if arg.name != "self"]
    return inspect.Signature([_script_parameter(arg) for arg in arguments])


def _script_parameter(argument: torch.Argument) -> inspect.Parameter:
    empty = inspect.Parameter.empty
    default = argument.default_value if argument.has_default_value() else empty
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    annotation = ScriptName(argument.type.annotation_str)
    return inspect.Parameter(argument.name, kind, default=default, annotation=annotation)


#: Type of a parameter in TorchScript → the type in Python, and the dtype of an array of one.
_NUMBERS: dict[str, tuple[type, str]] = {
    "int": (int, "int64"),
    "float": (float, "float32"),
    "bool": (bool, "bool"),
}


class ScriptName(str):
    """A name in TorchScript, which a text shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def as_script_number(parameter: inspect.Parameter, value: Any) -> Any:
    """Return a number if a parameter of TorchScript takes one, and the value is an array of one.

    The command line passes arrays alone, and TorchScript takes no array as a number.
    """
    number = _number_type(parameter)
    if number is None or not hasattr(value, "shape") or math.prod(value.shape) != 1:
        return value
    return number[0](value.item())


def describe_script_inputs(model: nn.Module) -> list[TensorSpec]:
    """Return specs of a TorchScript model's required parameters; a number has no dimensions."""
    parameters = forward_parameters(model)
    specs = []
    for name in required_names(parameters):
        number = _number_type(parameters.parameters[name])
        specs.append(
            TensorSpec(name, number[1], ()) if number else TensorSpec(name, "float32", None)
        )
    return specs


def _number_type(parameter: inspect.Parameter) -> tuple[type, str] | None:
    kind = parameter.annotation
    if not isinstance(kind, ScriptName):
        return None
    return _NUMBERS.get(kind.removeprefix("Optional[").removesuffix("]"))
