"""The parameters of a model's forward, and of functions that build models."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from enginebay import torch_private

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
    return inspect.Parameter(argument.name, kind, default=default)
