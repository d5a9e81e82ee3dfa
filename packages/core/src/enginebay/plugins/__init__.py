"""Plugins: listing those that are installed, and loading one by its name.

Listing (``discovery``) reads metadata and imports nothing of any plugin. Loading (``loading``)
imports one backend, after a trial in a child process where it is new here (``trial``), checks it
(``checks``), and registers it together with the plugins that see every backend. What needs pluggy
and msgspec is imported when a plugin is loaded: it would cost every ``enginebay backends`` 60 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names
from enginebay.plugins.discovery import (
    KNOWN_COMMANDS,
    KNOWN_COMPARATORS,
    KNOWN_DISTRIBUTIONS,
    KNOWN_MODEL_SOURCES,
    KNOWN_TASKS,
    BackendStatus,
    installed_backends,
    list_backends,
    list_commands,
    list_plugins,
    load_faults,
)
from enginebay.plugins.entry_points import BACKENDS, module_file

if TYPE_CHECKING:
    from enginebay.plugins.loading import (
        LoadedPlugin,
        PluginTeam,
        PluginWarning,
        contributed,
        load_backend,
        load_command,
        load_plugins,
        reset,
    )
    from enginebay.plugins.trial import forget_failures, trust

__all__ = [
    "BACKENDS",
    "KNOWN_COMMANDS",
    "KNOWN_COMPARATORS",
    "KNOWN_DISTRIBUTIONS",
    "KNOWN_MODEL_SOURCES",
    "KNOWN_TASKS",
    "BackendStatus",
    "LoadedPlugin",
    "PluginTeam",
    "PluginWarning",
    "contributed",
    "forget_failures",
    "installed_backends",
    "list_backends",
    "list_commands",
    "list_plugins",
    "load_backend",
    "load_command",
    "load_faults",
    "load_plugins",
    "module_file",
    "reset",
    "trust",
]

_LOADING = (
    *("LoadedPlugin", "PluginTeam", "PluginWarning"),
    *("contributed", "load_backend", "load_command", "load_plugins", "reset"),
)

__getattr__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(_LOADING, "plugins.loading"),
        **dict.fromkeys(("forget_failures", "trust"), "plugins.trial"),
    },
)
