"""The import of a plugin into this process, with all checks of its module.

Each check raises a :class:`PluginError` whose message is only the reason: ``loading`` adds the
plugin's name.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from inspect import isfunction
from typing import TYPE_CHECKING, get_args

import pluggy

from enginebay import hooks
from enginebay.environment import install_hint, missing_package
from enginebay.errors import PluginError, nearest, one_line
from enginebay.hooks import API_VERSION, PROJECT, BackendInfo
from enginebay.installation import install_command
from enginebay.params import BackendParams, IRKind
from enginebay.plugins.entry_points import BACKENDS, COMMANDS
from enginebay.version import __version__

if TYPE_CHECKING:
    from types import ModuleType

    from enginebay.plugins.discovery import BackendStatus

#: The hooks that every backend must implement.
REQUIRED = ("backend_info", "to_backend", "build_wrapper")
#: The functions that every command must define.
COMMAND = ("add_arguments", "run")


def new_manager() -> pluggy.PluginManager:
    """Create a plugin manager with Enginebay's hooks and without plugins."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hooks)
    return manager


def register(manager: pluggy.PluginManager, module: ModuleType) -> None:
    """Register a plugin, and check that all hooks that it implements exist."""
    manager.register(module)
    manager.check_pending()  # register() alone accepts misspelled hooks


def import_checked(group: str, status: BackendStatus) -> tuple[ModuleType, BackendInfo | None]:
    """Import and check a plugin; return its module and, for a backend, the backend's info.

    Raises:
        PluginError: The module cannot be imported; or it is not a plugin of this group, or one for
            another API version.
    """
    # Scripts read the command's output from stdout: a plugin's prints must not be in it.
    with redirect_stdout(sys.stderr):
        module = _import(status.module)
        if group == BACKENDS:
            return module, _check_backend(module, status)
        _check_command(module) if group == COMMANDS else _check_plugin(module)
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
                hint="upgrade enginebay and the plugin's package: "
                f"{install_command('enginebay', '-U')} PACKAGE",
            ) from err
        # An upgrade of the plugin would not bring its engine's SDK.
        package = missing_package(err)
        hint = install_hint(package) if package and package != module.partition(".")[0] else None
        raise PluginError(f"importing {module!r} raised {one_line(err)}", hint=hint) from err


def _check_backend(module: ModuleType, status: BackendStatus) -> BackendInfo:
    """Check a backend's module and return its info."""
    marked = _marked_hooks(module)
    _check_marks(module, marked)
    if "backend_info" in marked:
        info = _get_info(module)
        # First, because a plugin for another version may fail the other checks too, and their
        # messages would mislead its user.
        _check_api_version(info, status)
    _check_spelling(module, marked)
    _check_arguments(module)
    _check_required(module, marked)
    _check_info(info, status)
    return info


def _check_plugin(module: ModuleType) -> None:
    """Check the module of a plugin that applies to every backend."""
    marked = _marked_hooks(module)
    _check_marks(module, marked)
    _check_spelling(module, marked)
    _check_arguments(module)


def _check_command(module: ModuleType) -> None:
    """Check that a module defines the functions of a command."""
    missing = [name for name in COMMAND if not callable(getattr(module, name, None))]
    if missing:
        raise PluginError(
            f"{module.__name__!r} does not define {' and '.join(missing)}",
            hint="a command is a module with add_arguments(parser, argv) and run(args)",
        )


@cache
def _known_hooks() -> list[str]:
    return sorted(name for name in vars(new_manager().hook) if not name.startswith("_"))


def _marked_hooks(module: ModuleType) -> dict[str, bool]:
    """Return the hooks that a module implements: hook → True if the module marks it optional."""
    manager = pluggy.PluginManager(PROJECT)  # without hook specifications it accepts any hook
    manager.register(module)
    return {
        caller.name: all(implementation.optionalhook for implementation in caller.get_hookimpls())
        for caller in manager.get_hookcallers(module) or []
    }


def _check_marks(module: ModuleType, marked: dict[str, bool]) -> None:
    # A hook's function without the decorator would never be called.
    unmarked = [
        name
        for name in _known_hooks()
        if name not in marked
        and isfunction(function := vars(module).get(name))
        and function.__module__ == module.__name__
    ]
    parts = [] if marked else ["implements no hook"]
    parts += [f"has {', '.join(unmarked)} without @enginebay.hookimpl"] if unmarked else []
    if parts:
        raise PluginError(
            f"{module.__name__!r} {' and '.join(parts)}",
            hint="mark its functions with @enginebay.hookimpl",
        )


def _get_info(module: ModuleType) -> BackendInfo:
    manager = pluggy.PluginManager(PROJECT)
    manager.register(module)
    try:
        results = manager.hook.backend_info()
    except pluggy.HookCallError as err:
        raise PluginError("backend_info() must not take arguments") from err
    except KeyboardInterrupt:
        raise
    except BaseException as err:  # a plugin may call sys.exit
        raise PluginError(f"backend_info() raised {one_line(err)}") from err
    info = results[0] if results else None
    if not isinstance(info, BackendInfo):
        found = type(info).__name__
        raise PluginError(f"backend_info() must return a BackendInfo, but it returned {found}")
    return info


def _check_api_version(info: BackendInfo, status: BackendStatus) -> None:
    found = info.api_version
    versions = found if isinstance(found, tuple) else (found,)
    if API_VERSION in versions:
        return
    if not versions or not all(isinstance(each, int) for each in versions):
        raise PluginError(f"its api_version must be an integer or a tuple of them, found {found!r}")
    outdated = status.distribution if max(versions) < API_VERSION else "enginebay"
    wanted = " or ".join(map(str, versions))
    raise PluginError(
        f"the plugin requires API version {wanted}, but enginebay {__version__} has "
        f"API version {API_VERSION}",
        hint=install_command(outdated, "-U"),
    )


def _check_spelling(module: ModuleType, marked: dict[str, bool]) -> None:
    known = _known_hooks()
    for name, optional in marked.items():
        if name not in known and not optional:
            close = nearest(name, known)
            raise PluginError(
                f"{module.__name__!r} implements {name!r}, which is not a hook",
                hint=f"rename the function to {close}"
                if close
                else f"the hooks are {', '.join(known)}",
            )


def _check_arguments(module: ModuleType) -> None:
    manager = new_manager()
    try:
        register(manager, module)
    except pluggy.PluginValidationError as err:
        # pluggy's own text has four lines; the last line is the reason.
        name = next(n for n in _known_hooks() if repr(n) in str(err))
        arguments = ", ".join(getattr(manager.hook, name).spec.argnames)
        problem = str(err).splitlines()[-1]
        raise PluginError(
            f"{module.__name__!r} implements {name!r} wrongly: {problem}",
            hint=f"write def {name}({arguments})" if problem.startswith("Argument") else None,
        ) from err


def _check_required(module: ModuleType, marked: dict[str, bool]) -> None:
    missing = [name for name in REQUIRED if name not in marked]
    if missing:
        raise PluginError(f"{module.__name__!r} does not implement {', '.join(missing)}")


def _check_info(info: BackendInfo, status: BackendStatus) -> None:
    if info.name != status.name:
        raise PluginError(
            f"the entry point is named {status.name!r}, but its BackendInfo is named {info.name!r}",
            hint="use the same name in both",
        )
    kinds = get_args(IRKind)
    if not isinstance(info.irs, tuple) or not info.irs or not set(info.irs) <= set(kinds):
        raise PluginError(
            f"its irs must be a tuple with one or more of {', '.join(kinds)}, found {info.irs!r}"
        )
    if not (info.opset is None or (type(info.opset) is int and info.opset > 0)):
        raise PluginError(f"its opset must be a positive integer or None, found {info.opset!r}")
    if not (isinstance(info.params, type) and issubclass(info.params, BackendParams)):
        raise PluginError(f"its params must be a subclass of BackendParams, found {info.params!r}")
