"""Import a plugin and check it, in this process."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from importlib import import_module
from typing import TYPE_CHECKING

from enginebay.environment import install_hint, missing_package
from enginebay.errors import PluginError, one_line
from enginebay.plugins.entry_points import BACKENDS, COMMANDS
from enginebay.plugins.plugin_checks import check_backend, check_command, check_plugin
from enginebay.version import __version__

if TYPE_CHECKING:
    from types import ModuleType

    from enginebay.hooks import BackendInfo
    from enginebay.plugins.discovery import BackendStatus


def import_checked(group: str, status: BackendStatus) -> tuple[ModuleType, BackendInfo | None]:
    """Return a plugin's module, and its info where it is a backend.

    Raises:
        PluginError: It cannot be imported, or is not a plugin of this group.
    """
    # stdout belongs to the command's data, whatever a plugin prints.
    with redirect_stdout(sys.stderr):
        module = _import(status.module)
        if group == BACKENDS:
            return module, check_backend(module, status)
        check_command(module) if group == COMMANDS else check_plugin(module)
        return module, None


def _import(module: str) -> ModuleType:
    try:
        return import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as err:
        if isinstance(err, ImportError) and (err.name or "").partition(".")[0] == "enginebay":
            raise PluginError(
                f"importing {module!r} needs another version of enginebay than {__version__}: "
                f"{one_line(err)}",
                hint="pip install -U enginebay, and the package with it",
            ) from err
        # An upgrade of the plugin would not bring its engine's SDK.
        package = missing_package(err)
        hint = install_hint(package) if package and package != module.partition(".")[0] else None
        raise PluginError(f"importing {module!r} raised {one_line(err)}", hint=hint) from err
