"""Which plugins are installed, and loading one of them by its name.

Listing (``discovery``) reads metadata and imports nothing of any plugin. Loading (``loading``)
imports one backend, checks it (``vetting``), and puts it together with the plugins that see
every backend. What needs pluggy and msgspec is imported when a plugin is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.plugins.discovery import (
    KNOWN_DISTRIBUTIONS,
    KNOWN_MODEL_SOURCES,
    BackendStatus,
    list_backends,
    list_plugins,
)

if TYPE_CHECKING:
    from enginebay.plugins.loading import (
        LoadedPlugin,
        PluginTeam,
        PluginWarning,
        load_backend,
        load_plugins,
        reset,
    )

__all__ = [
    "KNOWN_DISTRIBUTIONS",
    "KNOWN_MODEL_SOURCES",
    "BackendStatus",
    "LoadedPlugin",
    "PluginTeam",
    "PluginWarning",
    "list_backends",
    "list_plugins",
    "load_backend",
    "load_plugins",
    "reset",
]


def __getattr__(name: str) -> Any:
    """Answer the names of ``loading``, which would cost every ``enginebay backends`` 60 ms."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from enginebay.plugins import loading

    return getattr(loading, name)
