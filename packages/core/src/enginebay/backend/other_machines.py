"""An engine that is built for other machines than this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import UsageError

if TYPE_CHECKING:
    from enginebay.backend.backend import Backend
    from enginebay.hooks import BuiltFor
    from enginebay.params import BackendParams


def elsewhere(backend: Backend, params: BackendParams) -> BuiltFor | None:
    """Return the machines that an engine is built for, where this one is none of them; else None.

    Raises:
        PluginError: The plugin returned something else.
    """
    found = backend.built_for(params)
    return found if found and found.lacking else None


def check_runs_here(backend: Backend, params: BackendParams, purpose: str, hint: str) -> None:
    """Check, before any work is done, that an engine with these parameters can run here.

    Args:
        backend: The backend.
        params: The parameters.
        purpose: What has to run it, for the message: ``--strict looks at …``.
        hint: What to type instead.

    Raises:
        UsageError: It is built for other machines.
    """
    if found := elsewhere(backend, params):
        raise UsageError(f"{purpose}, and it cannot run here: it is {found.describe()}", hint=hint)
