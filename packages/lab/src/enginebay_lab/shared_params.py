"""The parameters that several backends share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.errors import ParamsError, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from enginebay import Backend


def own_params(backend: Backend, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a backend has."""
    known = backend.Params.__struct_fields__
    return {name: value for name, value in params.items() if name in known}


def check_shared_param(name: str, backends: Collection[Backend]) -> None:
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
