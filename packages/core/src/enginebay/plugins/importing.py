"""Import of a plugin into this process, with all checks of its module."""

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
    """Import and check a plugin; return its module and, for a backend, the backend's info.

    Raises:
        PluginError: The module cannot be imported, or is not a plugin of this group.
    """
    # Scripts read the command's output from stdout: a plugin's prints must not be in it.
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
    except BaseException as err:  # a plugin may call sys.exit, which must not end the command
        if isinstance(err, ImportError) and (err.name or "").partition(".")[0] == "enginebay":
            raise PluginError(
                f"{module!r} requires a version of enginebay other than {__version__}: "
                f"{one_line(err)}",
                hint="upgrade enginebay and the plugin's package: pip install -U enginebay PACKAGE",
            ) from err
        # An upgrade of the plugin would not bring its engine's SDK.
        package = missing_package(err)
        hint = install_hint(package) if package and package != module.partition(".")[0] else None
        raise PluginError(f"importing {module!r} raised {one_line(err)}", hint=hint) from err
