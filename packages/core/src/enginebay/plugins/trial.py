"""Import trial of a plugin: a first import in a child process, since it may crash or hang.

The results are in one file in the user's cache folder, so that only a new plugin needs a child
process. If the folder cannot be written, every process repeats the trials of the plugins that it
imports. Other trials of a plugin's engine are recorded there too.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from enginebay.errors import (
    ChildCrashedError,
    ChildTimeoutError,
    EnginebayError,
    IsolationError,
    PluginError,
)
from enginebay.plugins.discovery import BackendStatus  # noqa: TC001  # the child reads load's annotations
from enginebay.plugins.entry_points import cache_folder, module_file
from enginebay.plugins.plugin_checks import import_checked

#: The time limit of a trial in seconds. A plugin should import no engine; if it does, the engine
#: may be on a cold disk.
TIME_LIMIT = 60.0
#: The maximum number of results; the oldest are dropped. Without a limit, test runs with
#: temporary plugins would let the file grow forever.
MAX_RESULTS = 200

_FUNCTION = "enginebay.plugins.trial:load"
_SURVIVED = ""
_on_trial: list[BackendStatus] = []  # filled only in the child process

_Results = dict[str, str]  # the latest result is the last


def check_survival(group: str, status: BackendStatus) -> None:
    """Check once, in a child process, that the import of a plugin does not crash or hang.

    Raises:
        PluginError: The import ended the child process, or exceeded its time limit.
    """
    if _on_trial:  # the import of one plugin may load another plugin
        return
    failure = _read_results().get(_key(status))
    if failure is None:
        failure = _try_import(group, status)
    if failure:
        again = "'enginebay backends --load' imports the plugin again"
        hint = f"{status.fault_hint(status.module)}; {again}"
        raise PluginError(failure, hint=hint)


def trust(status: BackendStatus, *trial: str) -> None:
    """Record that a plugin passed its import trial, or another one, so that it is not repeated."""
    _store_result(status, _SURVIVED, *trial)


def is_trusted(status: BackendStatus, *trial: str) -> bool:
    """Return True if :func:`trust` was called with these arguments for the plugin's version."""
    return _read_results().get(_key(status, *trial)) == _SURVIVED


def forget_failures() -> None:
    """Delete all failed import trials from the cache, so that these plugins are tried again."""
    _write_results({key: each for key, each in _read_results().items() if each == _SURVIVED})


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
    _store_result(status, result)
    return result


def _store_result(status: BackendStatus, result: str, *trial: str) -> None:
    """Store the trial result of a plugin's installed version."""
    results = _read_results()
    results.pop(key := _key(status, *trial), None)  # so that the new result is the last
    _write_results({**results, key: result})


def _file() -> Path:
    return Path(cache_folder()) / "plugins.json"


def _read_results() -> _Results:
    # No file, no home folder, or another version's format: an empty cache.
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_file().read_bytes(), type=_Results)
    return {}


def _write_results(results: _Results) -> None:
    from enginebay.files import write_whole

    data = msgspec.json.encode(dict(list(results.items())[-MAX_RESULTS:]))
    with suppress(OSError, EnginebayError):  # a cache that cannot be written is only slower
        write_whole(_file(), data)


def _key(status: BackendStatus, *trial: str) -> str:
    # With the file's time, since an editable install changes its file without a new version.
    file = module_file(status.module)
    changed = Path(file).stat().st_mtime_ns if file else 0
    return "\n".join((*status[:4], file, str(changed), *trial))
