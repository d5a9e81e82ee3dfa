"""Import trial of a plugin: a first import in a child process, since it may crash or hang.

The result is cached, so that only a new plugin needs a child process.
"""

from __future__ import annotations

from enginebay.errors import ChildCrashedError, ChildTimeoutError, IsolationError, PluginError
from enginebay.plugins import trial_cache
from enginebay.plugins.discovery import BackendStatus  # noqa: TC001  # the child reads load's annotations
from enginebay.plugins.importing import import_checked

#: The time limit of a trial in seconds. A plugin should import no engine; if it does, the engine
#: may be on a cold disk.
TIME_LIMIT = 60.0

_FUNCTION = "enginebay.plugins.trial:load"
_SURVIVED = ""
_on_trial: list[BackendStatus] = []  # filled only in the child process


def check_survival(group: str, status: BackendStatus) -> None:
    """Check once, in a child process, that the import of a plugin does not crash or hang.

    Raises:
        PluginError: The import ended the child process, or exceeded its time limit.
    """
    if _on_trial:  # the import of one plugin may load another plugin
        return
    failure = trial_cache.read_result(status)
    if failure is None:
        failure = _try_import(group, status)
    if failure:
        again = "'enginebay backends --load' imports the plugin again"
        hint = f"{status.fault_hint(status.module)}; {again}"
        raise PluginError(failure, hint=hint)


def trust(status: BackendStatus) -> None:
    """Record that a plugin passed its import trial, so that no trial runs in a child process."""
    trial_cache.store_result(status, _SURVIVED)


def forget_failures() -> None:
    """Delete all failed import trials from the cache, so that these plugins are tried again."""
    trial_cache.drop_others(_SURVIVED)


def load(group: str, status: BackendStatus) -> bool:
    """Import a plugin and return True if it can be used; called in the child process."""
    _on_trial.append(status)
    try:
        import_checked(group, status)
    except BaseException:  # noqa: BLE001  # the parent gets the same exception, with its traceback
        return False
    return True


def _try_import(group: str, status: BackendStatus) -> str:
    """Import a plugin in a child process; return how the process crashed or hung, or empty text."""
    from enginebay.isolation import call

    try:
        usable = call(_FUNCTION, group, status, timeout=TIME_LIMIT, result_type=bool)
    except (ChildCrashedError, ChildTimeoutError) as err:
        result = f"importing {status.module!r} {err.ending}"
    except IsolationError:  # no child process can start here, which is not the plugin's fault
        return _SURVIVED
    else:
        result = _SURVIVED
        if not usable:  # not cached: the reason, such as a missing package, may disappear
            return result
    trial_cache.store_result(status, result)
    return result
