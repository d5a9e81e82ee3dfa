"""Lists of the installed plugins, from the metadata of distributions.

This module imports no plugin, and neither pluggy, msgspec nor NumPy, so that ``enginebay backends``
takes only a few dozen milliseconds even with 300 distributions.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from enginebay.errors import PluginError
from enginebay.installation import install_command
from enginebay.plugins.entry_points import BACKENDS, COMMANDS, PLUGINS, entry_points

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_DISABLED = "ENGINEBAY_DISABLE_BACKENDS"
#: Options of pip for a broken installation of one package.
_AGAIN = "--force-reinstall --no-deps"

State: TypeAlias = Literal["installed", "disabled", "duplicate", "broken"]


class BackendStatus(NamedTuple):
    """An installed plugin and its state, as ``enginebay backends`` lists it.

    Attributes:
        name: The plugin's name, as users type it.
        distribution: The installed distribution that provides it.
        version: The version of this distribution.
        module: The module to which the plugin's entry point refers.
        state: ``installed`` if no error is known, even if the plugin was not imported yet;
            ``disabled`` by an environment variable; ``duplicate`` if several distributions
            provide a plugin of this name (each of these plugins is listed); or ``broken``.
        reason: Why the state is not ``installed``; None if it is.
        fix: The command or the change that solves the problem; None if the state is ``installed``.
    """

    name: str
    distribution: str
    version: str
    module: str
    state: State = "installed"
    reason: str | None = None
    fix: str | None = None

    @property
    def provider(self) -> str:
        """The distribution and its version, for messages.

        Example:
            >>> BackendStatus("ncnn", "enginebay-ncnn", "0.1.0", "enginebay_ncnn.plugin").provider
            'enginebay-ncnn 0.1.0'
        """
        return f"{self.distribution} {self.version}"

    @property
    def full_name(self) -> str:
        """The name by which users choose this one of several plugins of a name.

        Example:
            >>> BackendStatus("ncnn", "enginebay-ncnn", "0.1.0", "enginebay_ncnn.plugin").full_name
            'ncnn@enginebay-ncnn'
        """
        return f"{self.name}@{self.distribution}"

    @property
    def is_core(self) -> bool:
        """True for a plugin of core's own distribution.

        Example:
            >>> BackendStatus("ncnn", "enginebay-ncnn", "0.1.0", "enginebay_ncnn.plugin").is_core
            False
        """
        return self.distribution == "enginebay"

    def fault_hint(self, place: str) -> str:
        """Return the hint about a defect in a plugin; ``place`` names the function to correct."""
        if self.is_core:
            return reinstall_command()
        return f"report it to the authors of {self.distribution}, or correct {place}"


def reinstall_command() -> str:
    """Return the hint about a broken installation of Enginebay."""
    return install_command("enginebay", _AGAIN)


class Fault(NamedTuple):
    """The reason why a plugin cannot be used, and what the user can type or change."""

    reason: str
    fix: str
    cause: BaseException | None = None  # the plugin's exception


#: Group, name and module of each plugin that failed to load in this process → the reason.
load_faults: dict[tuple[str, str, str], Fault] = {}


def list_backends() -> list[BackendStatus]:
    """List the installed backends by their metadata, sorted by name.

    No backend is imported. A backend that failed to load in this process is ``broken``.

    Raises:
        PluginError: ``ENGINEBAY_STRICT_PLUGINS=1`` is set, and a backend is broken or a duplicate.
    """
    return _list(BACKENDS, disabled_by)


def installed_backends() -> list[str]:
    """List the names of the backends whose state is ``installed``, sorted."""
    return [status.name for status in list_backends() if status.state == "installed"]


def list_plugins() -> list[BackendStatus]:
    """List the plugins that apply to every backend, as :func:`list_backends` lists backends.

    Raises:
        PluginError: ``ENGINEBAY_STRICT_PLUGINS=1`` is set, and a plugin is broken or a duplicate.
    """
    return _list(PLUGINS, partial(_listed_in, "ENGINEBAY_DISABLE_PLUGINS"))


def list_commands(reserved: Collection[str]) -> list[BackendStatus]:
    """List the commands that plugins provide, as :func:`list_backends` lists backends.

    Args:
        reserved: The names of core's commands; a plugin's command of such a name is disabled.

    Raises:
        PluginError: ``ENGINEBAY_STRICT_PLUGINS=1`` is set, and a command is broken or a duplicate.
    """
    taken = Fault("enginebay has a command of this name itself", "its authors must rename it")
    return _list(COMMANDS, lambda status: taken if status.name in reserved else None)


def choose_backend(name: str, distribution: str) -> bool:
    """Use one of several distributions that provide a backend of this name; return if it does.

    The choice is for this process and the processes that it starts, which inherit the variable.
    """
    rivals = {each.distribution: each for each in _distinct(BACKENDS) if each.name == name}
    chosen = rivals.pop(distribution, None)
    if chosen and rivals:
        listed = _names_in(_DISABLED) or []
        others = sorted(rival.full_name for rival in rivals.values())
        os.environ[_DISABLED] = ",".join(dict.fromkeys([*listed, *others]))
    return chosen is not None


def disabled_by(status: BackendStatus) -> Fault | None:
    """Return why an environment variable disables a backend; None if it is enabled."""
    allowed = _names_in("ENGINEBAY_BACKENDS")
    if allowed is not None and not {status.name, status.full_name} & {*allowed}:
        listed = ",".join([*allowed, status.name])
        return Fault("ENGINEBAY_BACKENDS does not list it", f"ENGINEBAY_BACKENDS={listed}")
    return _listed_in(_DISABLED, status)


def _listed_in(variable: str, status: BackendStatus) -> Fault | None:
    for name in (status.name, status.full_name):
        if name in (_names_in(variable) or []):
            return Fault(f"{variable} lists it", f"take {name} out of {variable}")
    return None


def unknown_disabled_plugins() -> str:
    """Return a message about names in ENGINEBAY_DISABLE_PLUGINS that no plugin has, or no text."""
    if not (named := _names_in("ENGINEBAY_DISABLE_PLUGINS")):
        return ""
    plugins = list_plugins()
    known = [status.name for status in plugins]
    if not (unknown := {*named} - {*known} - {status.full_name for status in plugins}):
        return ""
    return (
        f"ENGINEBAY_DISABLE_PLUGINS lists {', '.join(map(repr, sorted(unknown)))}, but no plugin "
        f"has this name; installed: {', '.join(dict.fromkeys(known)) or 'none'}"
    )


def is_strict() -> bool:
    """Return True if ENGINEBAY_STRICT_PLUGINS makes every broken plugin an error, used or not."""
    return os.environ.get("ENGINEBAY_STRICT_PLUGINS", "0") not in ("", "0")


def fault_of(group: str, status: BackendStatus) -> Fault | None:
    """Return why a plugin failed to load in this process; None if it did not fail."""
    return load_faults.get((group, status.name, status.module))


def error_for(group: str, status: BackendStatus) -> PluginError:
    """Build the error about a plugin whose state is not ``installed``."""
    kind = {BACKENDS: "backend", COMMANDS: "command"}.get(group, "plugin")
    return PluginError(
        f"{kind} {status.name!r} of {status.provider} cannot be used: {status.reason}",
        hint=status.fix,
    )


def strict_error(err: PluginError) -> PluginError:
    """Return a copy of the error, whose message also names ENGINEBAY_STRICT_PLUGINS as a cause."""
    return PluginError(
        f"{err}; this is an error because ENGINEBAY_STRICT_PLUGINS is set", hint=err.hint
    )


def _list(group: str, disabled: Callable[[BackendStatus], Fault | None]) -> list[BackendStatus]:
    claims: dict[str, list[BackendStatus]] = {}
    for entry in _distinct(group):
        claims.setdefault(entry.name, []).append(entry)
    statuses = []
    for _, claimants in sorted(claims.items()):
        faults = [(entry, disabled(entry)) for entry in claimants]
        # First, so that a mapping from names has the one that can be used.
        statuses += [_with(entry, "disabled", fault) for entry, fault in faults if fault]
        rivals = [entry for entry, fault in faults if not fault]
        if len(rivals) > 1:
            fault = _rivalry(group, rivals)
            statuses += [_with(entry, "duplicate", fault) for entry in rivals]
        else:
            statuses += [_checked(group, entry) for entry in rivals]
    if is_strict():
        _raise_first_fault(group, statuses)
    return statuses


def _distinct(group: str) -> list[BackendStatus]:
    # The same name and module twice is one plugin, such as an editable install next to its wheel.
    plugins = {
        (entry.name, entry.module): BackendStatus(*entry[1:5])
        for entry in entry_points()
        if entry.group == group
    }
    return [*plugins.values()]


def _checked(group: str, entry: BackendStatus) -> BackendStatus:
    fault = _metadata_fault(entry) or fault_of(group, entry)
    return _with(entry, "broken", fault) if fault else entry


def _with(entry: BackendStatus, state: State, fault: Fault) -> BackendStatus:
    return entry._replace(state=state, reason=fault.reason, fix=fault.fix)


def _raise_first_fault(group: str, statuses: list[BackendStatus]) -> None:
    for status in statuses:
        if status.state in ("broken", "duplicate"):
            fault = fault_of(group, status)
            raise strict_error(error_for(group, status)) from (fault and fault.cause)


def _rivalry(group: str, rivals: list[BackendStatus]) -> Fault:
    owners = sorted(f"{rival.provider} ({rival.module})" for rival in rivals)
    fixes = sorted({f"pip uninstall {rival.distribution}" for rival in rivals})
    if group == BACKENDS:
        fixes.insert(0, f"name one: {' or '.join(sorted(rival.full_name for rival in rivals))}")
    return Fault(f"it is provided by {' and by '.join(owners)}", ", or ".join(fixes))


def _metadata_fault(entry: BackendStatus) -> Fault | None:
    if not entry.name or not all(part.isidentifier() for part in entry.module.split(".")):
        return Fault(
            f"its entry point '{entry.name} = {entry.module}' does not name a module",
            "write NAME = package.module into its entry points and install it again",
        )
    package = entry.module.partition(".")[0]
    if missing := _missing_module(entry.module):
        reason = f"module {missing!r} is missing, although {entry.provider} is installed"
        reinstall = install_command(entry.distribution, _AGAIN)
        return Fault(reason, reinstall if missing == package else entry.fault_hint(missing))
    return None


def _missing_module(module: str) -> str:
    """Return the first part of a module's name that no finder finds; no text if all are found."""
    from importlib.util import find_spec  # not at the top: it slows down the start

    package, *inside = name, *_ = module.split(".")
    try:
        spec = find_spec(package)
        for part in inside:
            if spec is None:
                return name
            # find_spec would import the package. Packages may add the other folders of their name.
            others = [f"{folder}/{package}" for folder in sys.path]
            folders = [*(spec.submodule_search_locations or []), *others]
            name = f"{name}.{part}"
            found = (finder.find_spec(name, folders) for finder in sys.meta_path)
            spec = next(filter(None, found), None)
    except Exception:  # noqa: BLE001 - another package's import hook raised; importing will show why
        return ""
    return name if spec is None else ""


def _names_in(variable: str) -> list[str] | None:
    """Return the names in a comma-separated environment variable; None if it is not set."""
    value = os.environ.get(variable)
    return None if value is None else [name for item in value.split(",") if (name := item.strip())]
