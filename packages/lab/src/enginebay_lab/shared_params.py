"""Several backends at once: those that are installed, and the parameters that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay.errors import ParamsError, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def installed_backends() -> list[str]:
    """The names of the backends that nothing is known to be wrong with, sorted."""
    return [status.name for status in eb.list_backends() if status.state == "installed"]


def own_params(backend: eb.Backend, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a backend has."""
    known = backend.Params.__struct_fields__
    return {name: value for name, value in params.items() if name in known}


def check_shared_param(name: str, backends: Collection[eb.Backend]) -> None:
    """Refuse a parameter that none of the backends has.

    Raises:
        ParamsError: It is none of theirs.
    """
    known = {field for backend in backends for field in backend.Params.__struct_fields__}
    if name not in known:
        close = nearest(name, known)
        raise ParamsError(
            f"'{name}' is no parameter of {', '.join(sorted(one.name for one in backends))}",
            hint=f"did you mean '{close}'?" if close else None,
        )
