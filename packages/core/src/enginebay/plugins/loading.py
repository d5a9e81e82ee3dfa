"""Loading plugins: by name, on use, once in a process.

A plugin that cannot be loaded is remembered as a :class:`~enginebay.plugins.discovery.Fault`. It
harms nobody else: a backend fails when it is asked for, any other plugin stays out with a warning.
"""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from enginebay.errors import BackendNotFoundError, EnginebayError, PluginError, nearest
from enginebay.plugins import discovery
from enginebay.plugins.discovery import BACKENDS, KNOWN_DISTRIBUTIONS, PLUGINS, BackendStatus, Fault
from enginebay.plugins.vetting import enlist, new_manager, told, vet_backend, vet_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    from enginebay.hooks import BackendInfo


Answer = TypeVar("Answer")
Vetted = TypeVar("Vetted")


class PluginWarning(UserWarning):
    """A plugin that sees every backend is broken and stays out.

    A warning and not a log line: what such a plugin would have changed silently stays unchanged,
    so a caller who configured no logging must see it, and a test run may turn it into an error.
    """


class PluginTeam:
    """Plugins that answer hooks together, in a plugin manager of their own.

    A team never changes. A backend's team holds that backend and the plugins that see every
    backend, and no other backend: a thread that loads one meanwhile cannot get into its calls.

    Attributes:
        members: The modules, checked, with where each comes from. The later answer first.
    """

    def __init__(self, members: Mapping[ModuleType, BackendStatus]) -> None:
        self.members = members
        self._manager = new_manager()
        for module in members:
            enlist(self._manager, module)

    def call(self, hook: str, **arguments: Any) -> Any:
        """The first answer to a hook that asks for one, or None where nobody answers.

        The backend is asked first, unless another plugin's implementation says ``tryfirst`` or is
        a wrapper. What an implementation raises passes unchanged.
        """
        return getattr(self._manager.hook, hook)(**arguments)

    def call_all(self, hook: str, **arguments: Any) -> list[tuple[BackendStatus, Any]]:
        """Everybody's answers to a hook that collects them, each with who gave it.

        The backend's comes first. Plugins are asked one by one, so that an error has an owner;
        wrappers go around each of them.

        Raises:
            PluginError: An implementation raised something that is not an EnginebayError.
        """
        implementations = reversed(getattr(self._manager.hook, hook).get_hookimpls())
        speakers = [one.plugin for one in implementations if not (one.wrapper or one.hookwrapper)]
        answers = []
        for speaker in speakers:
            others = [other for other in speakers if other is not speaker]
            caller = self._manager.subset_hook_caller(hook, remove_plugins=others)
            status = self.members[speaker]
            answers += [(status, answer) for answer in _ask(caller, hook, status, arguments)]
        return answers


class LoadedPlugin(PluginTeam):
    """One backend, together with the plugins that see every backend.

    Attributes:
        status: Where it comes from.
        info: What it says about itself.
    """

    def __init__(
        self, members: Mapping[ModuleType, BackendStatus], status: BackendStatus, info: BackendInfo
    ) -> None:
        super().__init__(members)
        self.status = status
        self.info = info

    def ask(self, hook: str, wanted: type[Answer], request: object) -> Answer | None:
        """The first answer to a hook, or None where nobody answers.

        Raises:
            PluginError: It is not of the type that is wanted, or an implementation raised something
                that is not an EnginebayError.
        """
        with _blamed(hook, self.status):
            answer = self.call(hook, request=request)
        if answer is not None and not isinstance(answer, wanted):
            raise PluginError(
                f"{hook}() of {self.status.name!r} ({self.status.provider}) answered "
                f"{answer!r}: wanted {wanted.__name__}",
                hint=f"pip install -U {self.status.distribution}",
            )
        return answer


def _ask(
    caller: Callable[..., Any], hook: str, status: BackendStatus, arguments: dict[str, Any]
) -> list[Any]:
    with _blamed(hook, status):
        return list(caller(**arguments))


@contextmanager
def _blamed(hook: str, status: BackendStatus) -> Iterator[None]:
    """What a hook raises by mistake becomes an error that says whose hook it is."""
    try:
        yield
    except EnginebayError:
        raise
    except Exception as err:
        raise PluginError(
            f"{hook}() of {status.name!r} ({status.provider}) raised {told(err)}",
            hint=f"pip install -U {status.distribution}",
        ) from err


_lock = RLock()  # re-entrant: a plugin may load another one while it is imported
_backends: dict[str, LoadedPlugin] = {}
_plugins: list[PluginTeam] = []  # one at most: the team of those that see every backend


def load_backend(name: str) -> LoadedPlugin:
    """Load a backend, or answer the one that this process has loaded already.

    Raises:
        BackendNotFoundError: No installed distribution provides it.
        PluginError: It is broken, disabled, provided twice or made for another API version.
    """
    with _lock:
        if name in _backends and not discovery.disabled_by(name):
            return _backends[name]
        status = _find(name)
        everywhere = load_plugins().members
        module, info = _load(BACKENDS, status, vet_backend)
        _backends[name] = LoadedPlugin({**everywhere, module: status}, status, info)
        return _backends[name]


def load_plugins() -> PluginTeam:
    """Load the plugins that see every backend, or answer them where they are loaded already.

    One that is broken stays out, with a :class:`PluginWarning`.

    Raises:
        PluginError: ``ENGINEBAY_STRICT_PLUGINS=1``, and one is broken.
    """
    with _lock:
        if not _plugins:
            team, errors = _gather()
            _plugins.append(team)  # before a warning that a filter may turn into an exception
            for error in errors:
                message = f"{error}; it stays out. Fix: {error.hint}"
                warnings.warn(message, PluginWarning, stacklevel=3)
        return _plugins[0]


def reset() -> None:
    """Forget everything that was loaded and every fault; for tests. Imported modules stay."""
    with _lock:
        _backends.clear()
        _plugins.clear()
        discovery.load_faults.clear()


def _gather() -> tuple[PluginTeam, list[PluginError]]:
    members: dict[ModuleType, BackendStatus] = {}
    errors = []
    for status in discovery.list_plugins():
        try:
            module, _ = _load(PLUGINS, status, vet_plugin)
            members.setdefault(module, status)
        except PluginError as err:
            if discovery.is_strict():
                raise discovery.strict_error(err) from err.__cause__
            errors.append(err)
    return PluginTeam(members), errors


def _find(name: str) -> BackendStatus:
    statuses = {status.name: status for status in discovery.list_backends()}
    if name in statuses:
        return statuses[name]
    installed = [known for known, status in statuses.items() if status.state == "installed"]
    raise BackendNotFoundError(
        f"no backend {name!r} is installed; there is {', '.join(installed) or 'none'}",
        hint=_hint_for_unknown(name, installed),
    )


def _hint_for_unknown(name: str, installed: list[str]) -> str:
    close = nearest(name.lower(), {*installed, *KNOWN_DISTRIBUTIONS})
    if close in installed:
        return f"did you mean {close!r}?"
    if close:
        question = "" if close == name else f"did you mean {close!r}? "
        return f"{question}pip install {KNOWN_DISTRIBUTIONS[close]}"
    return f"pip install {' or '.join(KNOWN_DISTRIBUTIONS.values())}, or the package that has it"


def _load(
    group: str, status: BackendStatus, vet: Callable[[ModuleType, BackendStatus], Vetted]
) -> tuple[ModuleType, Vetted]:
    """Import a plugin and check it; where that fails, the fault is kept for the process."""
    if status.state != "installed":
        known = discovery.fault_of(group, status)
        raise discovery.error_for(group, status) from (known and known.cause)
    try:
        # stdout belongs to the command's data, whatever a plugin prints.
        with redirect_stdout(sys.stderr):
            module = _import(status.module)
            return module, vet(module, status)
    except PluginError as err:
        fix = err.hint or f"pip install -U {status.distribution}"
        fault = Fault(str(err), fix, err.__cause__)
    discovery.load_faults[group, status.name, status.module] = fault
    broken = status._replace(state="broken", reason=fault.reason, fix=fault.fix)
    raise discovery.error_for(group, broken) from fault.cause


def _import(module: str) -> ModuleType:
    try:
        return import_module(module)
    except (Exception, SystemExit) as err:
        raise PluginError(f"importing {module!r} raised {told(err)}") from err
