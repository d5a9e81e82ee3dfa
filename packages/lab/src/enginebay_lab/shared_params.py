"""Backend parameters that are passed to several backends at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ParamsError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from enginebay import Backend


def own_params(backend: Backend, params: Mapping[str, object]) -> dict[str, object]:
    """Return the entries of ``params`` that the backend declares, as a new dict."""
    known = backend.Params.__struct_fields__
    return {name: value for name, value in params.items() if name in known}


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
