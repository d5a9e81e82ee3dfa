"""Plugins: the list of installed plugins, and the loading of a plugin by its name.

Listing (``discovery``) reads metadata and imports no plugin. Loading (``loading``) imports one
backend and checks it (``plugin_checks``), and registers it together with the plugins that apply to
every backend. A new plugin is first imported in a child process, as a trial (``trial``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names
from enginebay.plugins.discovery import (
    BackendStatus as BackendStatus,
    choose_backend as choose_backend,
    installed_backends as installed_backends,
    list_backends as list_backends,
    list_commands as list_commands,
    list_plugins as list_plugins,
    load_faults as load_faults,
    unknown_disabled_plugins as unknown_disabled_plugins,
)
from enginebay.plugins.entry_points import (
    BACKENDS as BACKENDS,
    cache_folder as cache_folder,
    module_file as module_file,
)

# These modules import pluggy and msgspec, which would cost every ``enginebay backends`` 60 ms.
if TYPE_CHECKING:
    from enginebay.plugins.known import (
        command_with as command_with,
        known_packages as known_packages,
        preferred_backend as preferred_backend,
        usual_name as usual_name,
    )
    from enginebay.plugins.loading import (
        LoadedPlugin as LoadedPlugin,
        PluginTeam as PluginTeam,
        PluginWarning as PluginWarning,
        contributed as contributed,
        errors_named as errors_named,
        forget_plugins as forget_plugins,
        load_backend as load_backend,
        load_command as load_command,
        load_plugins as load_plugins,
        wrong_result as wrong_result,
    )
    from enginebay.plugins.trial import (
        forget_failures as forget_failures,
        is_trusted as is_trusted,
        trust as trust,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "plugins.known": "command_with known_packages preferred_backend usual_name",
        "plugins.loading": (
            "LoadedPlugin PluginTeam PluginWarning contributed errors_named forget_plugins "
            "load_backend load_command load_plugins wrong_result"
        ),
        "plugins.trial": "forget_failures is_trusted trust",
    },
)
__all__ += [
    "BACKENDS",
    "BackendStatus",
    "cache_folder",
    "choose_backend",
    "installed_backends",
    "list_backends",
    "list_commands",
    "list_plugins",
    "load_faults",
    "module_file",
    "unknown_disabled_plugins",
]
