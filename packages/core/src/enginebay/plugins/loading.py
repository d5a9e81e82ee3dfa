"""Loading of plugins by name: each plugin is loaded at its first use, once in a process.

The reason why a plugin cannot be loaded is stored as a :class:`~enginebay.plugins.discovery.Fault`.
A broken backend raises only if it is requested; any other broken plugin is skipped with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from enginebay.errors import (
    BackendNotFoundError,
    EnginebayError,
    PluginError,
    UsageError,
    nearest,
    one_line,
)
from enginebay.plugins import discovery, plugin_checks
from enginebay.plugins.discovery import BackendStatus, Fault
from enginebay.plugins.entry_points import BACKENDS, COMMANDS, PLUGINS
from enginebay.plugins.trial import check_survival, trust

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from enginebay.hooks import BackendInfo

T = TypeVar("T")


class PluginWarning(UserWarning):
    """Warning that a broken plugin, which applies to every backend, is not used, or is unknown.

    This is a warning and not a log message: results may differ without the plugin, so users must
    see it without configured logging, and a test run can turn it into an error.
    """


class PluginTeam:
    """A fixed set of plugins whose hooks are called together.

    A backend's set contains this backend and the plugins that apply to every backend, but no other
    backend. Each set has a separate pluggy manager. A set therefore never calls a backend that
    another thread loads.

    Args:
        members: The checked modules, each with its status. Hooks of later modules are called first.
        core_fault: Why a plugin of core's own distribution cannot be used; None if all can.

    Attributes:
        members: The modules, each with its status.
        core_fault: As above.
    """

    def __init__(
        self, members: Mapping[ModuleType, BackendStatus], core_fault: Fault | None = None
    ) -> None:
        self.members = members
        self.core_fault = core_fault
        self._manager = plugin_checks.new_manager()
        for module in members:
            plugin_checks.register(self._manager, module)

    def check_core_plugins(self) -> None:
        """Check the plugins of core's own distribution, which are a part of Enginebay.

        A broken one does no harm to whatever does not need it. So it is an error only here.

        Raises:
            PluginError: A plugin of core's own distribution cannot be used.
        """
        if self.core_fault is not None:
            reason, fix, cause = self.core_fault
            raise PluginError(reason, hint=fix) from cause

    def call(self, hook: str, **arguments: object) -> Any:
        """Return a hook's first result that is not None; None if all results are None.

        The backend is called first, unless another plugin's implementation is marked ``tryfirst``
        or is a wrapper. Exceptions pass unchanged.
        """
        return getattr(self._manager.hook, hook)(**arguments)

    def implements(self, hook: str) -> bool:
        """Return True if a plugin implements a hook; hook wrappers do not count."""
        implementations = getattr(self._manager.hook, hook).get_hookimpls()
        return any(not (impl.wrapper or impl.hookwrapper) for impl in implementations)

    def call_all(
        self, hook: str, *, skip_raising: bool = False, **arguments: object
    ) -> list[tuple[BackendStatus, Any]]:
        """Call a hook of all plugins, and return the results, each with its plugin's status.

        The backend's result is the first one. Hook wrappers surround each call.

        Args:
            hook: The hook's name.
            skip_raising: Skip a plugin for every backend that raises, with a
                :class:`PluginWarning`: it must not end what has nothing to do with it.
            **arguments: The hook's arguments.

        Raises:
            PluginError: A plugin raised an exception other than an EnginebayError.
        """
        implementations = reversed(getattr(self._manager.hook, hook).get_hookimpls())
        plugins = [
            impl.plugin for impl in implementations if not (impl.wrapper or impl.hookwrapper)
        ]
        results: list[tuple[BackendStatus, Any]] = []
        # One call for each plugin, so that an error can name the plugin.
        for plugin in plugins:
            others = [other for other in plugins if other is not plugin]
            caller = self._manager.subset_hook_caller(hook, remove_plugins=others)
            status = self.members[plugin]
            try:
                with _errors_of(hook, status):
                    results += [(status, result) for result in caller(**arguments)]
            except PluginError as err:
                on_purpose = err.__cause__ is None
                if on_purpose or not skip_raising or self._requires(status):
                    raise
                if discovery.is_strict():
                    raise discovery.strict_error(err) from err.__cause__
                message = (
                    f"{err}; it is left out. Fix: {err.hint}, or "
                    f"ENGINEBAY_DISABLE_PLUGINS={status.name}"
                )
                warnings.warn(message, PluginWarning, stacklevel=2)
        return results

    def _requires(self, status: BackendStatus) -> bool:
        """Return True for a plugin without which the results would be others."""
        return status.is_core


class LoadedPlugin(PluginTeam):
    """A loaded backend, together with the plugins that apply to every backend.

    Attributes:
        status: The backend's distribution and module.
        info: The capabilities that the backend declares.
    """

    def __init__(
        self, shared: PluginTeam, module: ModuleType, status: BackendStatus, info: BackendInfo
    ) -> None:
        super().__init__({**shared.members, module: status}, shared.core_fault)
        self.status = status
        self.info = info

    def _requires(self, status: BackendStatus) -> bool:
        return status is self.status or super()._requires(status)

    def call_typed(self, hook: str, result_type: type[T], request: object) -> T | None:
        """Call a hook, check the type of the first result that is not None, and return the result.

        Returns:
            The result; None if every plugin returns None.

        Raises:
            PluginError: The result is not a ``result_type``, or a plugin raised an exception other
                than an EnginebayError.
        """
        with _errors_of(hook, self.status):
            result = self.call(hook, request=request)
        if result is not None and not isinstance(result, result_type):
            raise wrong_result(hook, self.status, result, result_type.__name__)
        return result


@contextmanager
def errors_named(
    kind: type[EnginebayError], failure: str, hint: str | None = None
) -> Iterator[None]:
    """In the ``with`` block, replace an exception by an error of type ``kind``.

    The new message is ``failure``, followed by the old message. An EnginebayError and a
    KeyboardInterrupt are not replaced.
    """
    try:
        yield
    except (EnginebayError, KeyboardInterrupt):
        raise
    except BaseException as err:  # a plugin may call sys.exit
        raise kind(f"{failure} {one_line(err)}", hint=hint) from err


def _errors_of(hook: str, status: BackendStatus) -> AbstractContextManager[None]:
    failure = f"{hook}() of {status.name!r} ({status.provider}) raised"
    return errors_named(PluginError, failure, status.fault_hint(f"{hook}() of {status.module}"))


def wrong_result(hook: str, status: BackendStatus, result: object, wanted: str) -> PluginError:
    """Build the error about a plugin whose hook returned an invalid result."""
    return PluginError(
        f"{hook}() of {status.name!r} ({status.provider}) returned {result!r:.80}: "
        f"expected {wanted}",
        hint=status.fault_hint(f"{hook}() of {status.module}"),
    )


_lock = RLock()  # re-entrant: the import of one plugin may load another plugin
_backends: dict[str, LoadedPlugin] = {}
_plugins: list[PluginTeam] = []  # at most one: the team of the plugins for every backend


def load_backend(name: str) -> LoadedPlugin:
    """Load a backend, or return it from the cache of this process.

    Of several distributions that provide the backend, ``NAME@DISTRIBUTION`` chooses one for this
    process.

    Raises:
        UsageError: The name is not a text.
        BackendNotFoundError: No installed distribution provides a backend of this name.
        PluginError: The backend is broken, disabled, provided by several distributions, or written
            for another API version.
    """
    _check_name(name)
    with _lock:
        plain, _, distribution = name.partition("@")
        if distribution and discovery.choose_backend(plain, distribution):
            name = plain
        if name in _backends and not discovery.disabled_by(_backends[name].status):
            return _backends[name]
        status = _find(name)
        shared = load_plugins()
        module, info = _load(BACKENDS, status)
        assert info is not None
        _backends[name] = LoadedPlugin(shared, module, status, info)
        return _backends[name]


def load_plugins() -> PluginTeam:
    """Load the plugins that apply to every backend, once in this process; return their set.

    A broken plugin is skipped with a :class:`PluginWarning`; one of core's own distribution without
    a warning, since :meth:`PluginTeam.check_core_plugins` raises its error. A name that no plugin
    has in ``ENGINEBAY_DISABLE_PLUGINS`` is a :class:`PluginWarning` too.

    Raises:
        PluginError: ``ENGINEBAY_STRICT_PLUGINS=1`` is set, and a plugin is broken.
    """
    with _lock:
        if not _plugins:
            team, errors = _load_all()
            _plugins.append(team)  # before a warning that a filter may turn into an exception
            for error in errors:
                message = f"{error}; the plugin is not used. Fix: {error.hint}"
                warnings.warn(message, PluginWarning, stacklevel=3)
            if unknown := discovery.unknown_disabled_plugins():
                warnings.warn(unknown, PluginWarning, stacklevel=3)
        return _plugins[0]


def load_command(status: BackendStatus) -> ModuleType:
    """Import the module of a plugin's command.

    Raises:
        PluginError: The module cannot be imported or is not a command, or several distributions
            provide the command.
    """
    with _lock:
        return _load(COMMANDS, status)[0]


def contributed(hook: str) -> dict[str, Any]:
    """Call a hook such as ``metrics`` of all plugins, and return their mappings merged into one.

    Raises:
        PluginError: A plugin raised or did not return a mapping, or two plugins define the same
            name.
    """
    merged: dict[str, Any] = {}
    owners: dict[str, BackendStatus] = {}
    for status, by_name in load_plugins().call_all(hook):
        if not (isinstance(by_name, Mapping) and all(isinstance(name, str) for name in by_name)):
            raise wrong_result(hook, status, by_name, "a mapping from names to callables")
        for name in by_name:
            if (owner := owners.setdefault(name, status)) is not status:
                first, second = sorted((owner, status))
                raise PluginError(
                    f"{hook}() of {first.name!r} ({first.provider}) and of {second.name!r} "
                    f"({second.provider}) both define {name!r}",
                    hint=f"pip uninstall {first.distribution}, or {second.distribution}",
                )
        merged |= by_name
    return merged


def forget_plugins(*trusted: BackendStatus) -> None:
    """Clear the caches of loaded and of failed plugins, for tests; modules stay imported.

    Args:
        *trusted: Plugins whose first import needs no trial in a child process: a plugin's author
            debugs the import in the process of the tests.
    """
    with _lock:
        _backends.clear()
        _plugins.clear()
        discovery.load_faults.clear()
    for status in trusted:
        trust(status)


def _load_all() -> tuple[PluginTeam, list[PluginError]]:
    members: dict[ModuleType, BackendStatus] = {}
    errors = []
    statuses = discovery.list_plugins()
    core_fault = None
    # Without a plugin of its own distribution, core would export without its rewriters.
    if not any(each.is_core for each in statuses):
        core_fault = Fault(
            "Enginebay's own rewriters are not installed: "
            "the distribution enginebay lists no plugin",
            discovery.reinstall_command(),
        )
    for status in statuses:
        if status.state == "disabled":
            continue
        try:
            module, _ = _load(PLUGINS, status)
            members.setdefault(module, status)  # a module may have several entry points
        except PluginError as err:
            if discovery.is_strict():
                raise discovery.strict_error(err) from err.__cause__
            if status.is_core:
                core_fault = Fault(
                    str(err), err.hint or discovery.reinstall_command(), err.__cause__
                )
            else:
                errors.append(err)
    return PluginTeam(members, core_fault), errors


def _check_name(name: object) -> None:
    if isinstance(name, str):
        return
    own = getattr(name, "name", None)  # a Backend has one
    raise UsageError(
        f"invalid backend: expected a name, found an object of type {type(name).__name__}",
        hint=f"--backend {own}" if isinstance(own, str) else "enginebay backends",
    )


def _find(name: str) -> BackendStatus:
    statuses = {status.name: status for status in discovery.list_backends()}
    if name in statuses:
        return statuses[name]
    from enginebay.plugins.known import known_packages

    installed = [known for known, status in statuses.items() if status.state == "installed"]
    error = BackendNotFoundError(
        f"no backend {name!r} is installed; installed: {', '.join(installed) or 'none'}",
        hint=_hint_for_unknown(name, installed),
    )
    error.distribution = known_packages("backends").get(name)
    raise error


def _hint_for_unknown(name: str, installed: list[str]) -> str:
    from enginebay.installation import install_command
    from enginebay.plugins.known import known_packages, usual_name

    packages = known_packages("backends")
    known = {*installed, *packages}
    meant = usual_name(name.lower())
    close = meant if meant in known else nearest(name.lower(), known)
    if close in installed:
        return f"did you mean {close!r}?"
    if close:
        question = "" if close == name else f"did you mean {close!r}? "
        return question + install_command(packages[close])
    if installed:
        return f"no known package provides it; to write one: enginebay new-backend {name}"
    commands = [install_command(requirement) for requirement in packages.values()]
    return f"{' or '.join(commands)}, or the package that provides it"


def _load(group: str, status: BackendStatus) -> tuple[ModuleType, BackendInfo | None]:
    if status.state != "installed":
        known = discovery.fault_of(group, status)
        raise discovery.error_for(group, status) from (known and known.cause)
    try:
        # A trial protects from the code of others; core's plugins are part of core.
        if not status.is_core:
            check_survival(group, status)
        return plugin_checks.import_checked(group, status)
    except PluginError as err:
        fix = err.hint or status.fault_hint(status.module)
        fault = Fault(str(err), fix, err.__cause__)
    discovery.load_faults[group, status.name, status.module] = fault
    broken = status._replace(state="broken", reason=fault.reason, fix=fault.fix)
    raise discovery.error_for(group, broken) from fault.cause
