"""Arguments of :func:`enginebay.deploy` that other functions pass on, with one value or several."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING

import enginebay as eb
from enginebay.errors import ParamsError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from enginebay import Backend


def as_list(names: str | Iterable[str]) -> list[str]:
    """Return one name or several as a list."""
    return [names] if isinstance(names, str) else list(names)


def check_deploy_options(options: Iterable[str], instead: Mapping[str, str]) -> None:
    """Check that :func:`enginebay.deploy` accepts keyword arguments.

    Args:
        options: The names of the arguments.
        instead: Arguments that the caller has under another name, by the name in ``deploy``.

    Raises:
        UsageError: An argument is unknown, or has another name here.
    """
    known = [name for name in inspect.signature(eb.deploy).parameters if name not in instead]
    for name in options:
        if name not in known:
            other = instead.get(name)
            hint = f"pass {other}=" if other else did_you_mean(name, [*known, *instead.values()])
            raise UsageError(f"unknown argument '{name}'", hint=hint)


def own_params(backend: Backend | None, params: Mapping[str, object]) -> dict[str, object]:
    """Return the entries of ``params`` that the backend declares; all of them for None."""
    known = backend.Params.__struct_fields__ if backend else params
    return {name: value for name, value in params.items() if name in known}


def list_axes(backend: Backend | None, params: Mapping[str, object]) -> dict[str, list[object]]:
    """Return the values of each parameter that the backend declares; of all of them for None.

    A list has several values, whose combinations become rows; any other value is the only one.
    """
    return {
        name: list(value) if isinstance(value, list | tuple) else [value]
        for name, value in own_params(backend, params).items()
    }


def describe_params(params: Mapping[str, object]) -> str:
    """Return a text for each parameter, after a space, for the name of a row.

    Example:
        >>> describe_params({"threads": 2, "providers": ["onnxruntime_qnn"]})
        ' threads=2 providers=onnxruntime_qnn'
    """
    return "".join(f" {name}={_describe_value(value)}" for name, value in params.items())


def _describe_value(value: object) -> str:
    if isinstance(value, Mapping):
        return describe_params(value).lstrip()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def check_shared_param(name: str, backends: Collection[Backend]) -> None:
    """Check that at least one of several backends declares a parameter.

    Raises:
        ParamsError: No backend declares the parameter.
    """
    known = {field for backend in backends for field in backend.Params.__struct_fields__}
    if name not in known:
        raise ParamsError(
            f"unknown parameter '{name}' for {', '.join(sorted(b.name for b in backends))}",
            hint=did_you_mean(name, known),
        )
