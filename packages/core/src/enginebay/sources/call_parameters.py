"""The parameters of a model's forward, and of functions that build models."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

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


def required_parameters(function: Callable[..., object]) -> list[str]:
    """Return a function's required parameters; empty if :mod:`inspect` finds no signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]


def _script_parameters(model: Any) -> inspect.Signature:
    # inspect cannot see the parameters of a TorchScript module that was loaded from a file.
    arguments = [arg for arg in model.forward.schema.arguments if arg.name != "self"]
    return inspect.Signature([_script_parameter(arg) for arg in arguments])


def _script_parameter(argument: torch.Argument) -> inspect.Parameter:
    empty = inspect.Parameter.empty
    default = argument.default_value if argument.has_default_value() else empty
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(argument.name, kind, default=default)
