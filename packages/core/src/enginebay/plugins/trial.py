"""The trial of a plugin: its first load is in a child process, where a crash or a hang ends there.

The answer is cached, so that only a new plugin costs a process.
"""

from __future__ import annotations

from enginebay.errors import ChildCrashedError, ChildTimeoutError, IsolationError, PluginError
from enginebay.plugins import trial_cache
from enginebay.plugins.discovery import BackendStatus  # noqa: TC001  # the child reads load's annotations
from enginebay.plugins.importing import import_checked

#: Seconds that a first load may take. A plugin should import no engine; if it does, the engine may
#: be on a cold disk.
TIME_LIMIT = 60.0

_FUNCTION = "enginebay.plugins.trial:load"
_SURVIVED = ""
_inside: list[BackendStatus] = []  # the plugin on trial, in the child process


def check_survival(group: str, status: BackendStatus) -> None:
    """Check that loading a plugin leaves its process alive, by doing so once in a child process.

    Raises:
        PluginError: It took the child process down, or did not end in time.
    """
    if _inside:  # the import of one plugin may load another plugin
        return
    answer = trial_cache.read_answer(status)
    if answer is None:
        answer = _ask(group, status)
    if answer:
        again = "'enginebay backends --load' tries it again"
        hint = f"{status.fault_hint(status.module)}; {again}"
        raise PluginError(answer, hint=hint)


def trust(status: BackendStatus) -> None:
    """Let a plugin be loaded without a trial: one under test, which is debugged where it fails."""
    trial_cache.store_answer(status, _SURVIVED)


def forget_failures() -> None:
    """Let plugins that failed be tried again."""
    trial_cache.drop_others(_SURVIVED)


def load(group: str, status: BackendStatus) -> bool:
    """Load a plugin in this process; True if it can be used."""
    _inside.append(status)
    try:
        import_checked(group, status)
    except BaseException:  # noqa: BLE001  # the parent meets it too, with its own traceback
        return False
    return True


def _ask(group: str, status: BackendStatus) -> str:
    """Return why a plugin cannot be loaded, and cache the reason; empty if it can."""
    from enginebay.isolation import call

    try:
        usable = call(_FUNCTION, group, status, timeout=TIME_LIMIT, result_type=bool)
    except (ChildCrashedError, ChildTimeoutError) as err:
        answer = f"importing {status.module!r} {err.ending}"
    except IsolationError:  # no child process can start here, which is not the plugin's fault
        return _SURVIVED
    else:
        answer = _SURVIVED
        if not usable:  # an exception, which the next environment may not raise
            return answer
    trial_cache.store_answer(status, answer)
    return answer
