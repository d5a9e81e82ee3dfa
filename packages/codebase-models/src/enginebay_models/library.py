"""Import of a library that may be missing, and the error for a name that it does not have."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from enginebay.errors import MissingDependencyError, ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Iterable


def library(name: str) -> Any:
    """Import a library.

    Raises:
        MissingDependencyError: It is not installed, or does not import.
    """
    if find_spec(name) is None:
        raise MissingDependencyError(
            f"'{name}:' names models of {name}, which is not installed",
            hint=f"pip install 'enginebay-models[{name}]'",
        )
    try:
        return import_module(name)
    except Exception as err:  # torchvision beside a torch of another build raises RuntimeError
        raise MissingDependencyError(
            f"{name} is installed and does not import: {type(err).__name__}: {err}",
            hint="install builds of torch and torchvision that belong together",
        ) from err


def unknown(scheme: str, name: str, known: Iterable[str]) -> ModelSourceError:
    """Return the error for an unknown model; its hint has the nearest names."""
    close = get_close_matches(name, list(known), n=3, cutoff=0.5)
    return ModelSourceError(
        f"{scheme} has no model '{name}'",
        hint=f"nearest are {', '.join(close)}" if close else None,
    )
