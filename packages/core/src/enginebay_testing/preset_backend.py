"""A backend with other defaults of its parameters, for the kit's option ``--params``."""

from __future__ import annotations

import argparse
import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, get_type_hints

import msgspec
import pytest

import enginebay as eb
from enginebay.errors import ParamsError
from enginebay_testing.temporary import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The hooks of a backend with other defaults.
_MODULE = """\
import enginebay as eb
import {module}
from {module} import *
from enginebay_testing.preset_backend import set_defaults

changed = set_defaults({module}.backend_info(), {name!r}, {values!r})

@eb.hookimpl
def backend_info():
    return changed
"""


@contextmanager
def preset_backend(name: str, words: Sequence[str]) -> Iterator[str]:
    """Install a backend whose parameters have other defaults for a ``with`` block.

    Args:
        name: The name of the backend.
        words: The new defaults, ``FIELD=VALUE`` as for the command-line flag of the field.

    Yields:
        The name of the backend with the new defaults.
    """
    values = read_values(eb.get_backend(name), words)
    (module,) = (status.module for status in eb.list_backends() if status.name == name)
    preset = f"{name}-with-params"
    source = _MODULE.format(module=module, name=preset, values=values)
    with temporary_backend(preset, source):
        yield preset


def read_values(backend: eb.Backend, words: Sequence[str]) -> dict[str, Any]:
    """Return the values of ``FIELD=VALUE`` words as plain data, by field.

    Raises:
        UsageError: pytest's: a word has no such form, a field is unknown, or a value does not fit.
    """
    parser = _Parser(prog="--params", add_help=False)
    backend.add_arguments(parser)
    flags = []
    for word in words:
        field, equals, value = word.partition("=")
        if not equals:
            raise pytest.UsageError(f"--params {word}: expected FIELD=VALUE")
        flags += [f"--{field.replace('_', '-')}", *shlex.split(value)]
    try:
        arguments = parser.parse_args(flags)
        given = backend.Params.given_arguments(arguments)
        everything = backend.Params(**given).to_mapping()
    except ParamsError as err:
        raise pytest.UsageError(f"--params: {err}") from err
    return {field: everything[field] for field in given}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise pytest.UsageError(f"--params: {message}")


def set_defaults(info: eb.BackendInfo, name: str, values: dict[str, Any]) -> eb.BackendInfo:
    """Return a backend's information with another name and other defaults of its parameters."""
    base = info.params
    given = base.from_mapping(values)
    types = get_type_hints(base, include_extras=True)
    fields = {field: getattr(given, field) for field in values}
    namespace = {
        "__module__": base.__module__,
        "__doc__": base.__doc__,
        "__annotations__": {field: types[field] for field in fields},
        **{field: _default(value) for field, value in fields.items()},
    }
    metaclass: Any = type(base)
    params = metaclass(base.__name__, (base,), namespace)
    kinds = (given.device.partition(":")[0], *info.devices)
    precisions = (given.allowed_precision or info.precisions[0], *info.precisions)
    return msgspec.structs.replace(
        info,
        name=name,
        params=params,
        # The first ones are the defaults.
        devices=tuple(dict.fromkeys(kinds)),
        precisions=tuple(dict.fromkeys(precisions)),
    )


def _default(value: Any) -> Any:
    if isinstance(value, dict | list):
        return msgspec.field(default_factory=value.copy)
    return value
