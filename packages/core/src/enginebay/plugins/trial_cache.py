"""Cache of the results of import trials, in one file in the user's cache folder.

If the folder cannot be written, every process repeats the trials of the plugins that it imports.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import EnginebayError
from enginebay.files import write_whole
from enginebay.plugins.entry_points import cache_folder, module_file

if TYPE_CHECKING:
    from enginebay.plugins.discovery import BackendStatus

#: The maximum number of results; the oldest are dropped. Without a limit, test runs with
#: temporary plugins would let the file grow forever.
MAX_RESULTS = 100

_Results = dict[str, str]  # the latest result is the last


def read_result(status: BackendStatus) -> str | None:
    """Return the cached trial result of a plugin's installed version; None without a result."""
    return _read().get(_key(status))


def store_result(status: BackendStatus, result: str) -> None:
    """Cache the trial result of a plugin's installed version."""
    results = _read()
    results.pop(_key(status), None)  # so that the new result is the last
    _write({**results, _key(status): result})


def drop_others(result: str) -> None:
    """Delete all cached results that differ from ``result``."""
    _write({key: value for key, value in _read().items() if value == result})


def _file() -> Path:
    return Path(cache_folder()) / "plugins.json"


def _read() -> _Results:
    # No file, no home folder, or another version's format: an empty cache.
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_file().read_bytes(), type=_Results)
    return {}


def _write(results: _Results) -> None:
    data = msgspec.json.encode(dict(list(results.items())[-MAX_RESULTS:]))
    with suppress(OSError, EnginebayError):  # a cache that cannot be written is only slower
        write_whole(_file(), data)


def _key(status: BackendStatus) -> str:
    # With the file's time, since an editable install changes its file without a new version.
    file = module_file(status.module)
    changed = Path(file).stat().st_mtime_ns if file else 0
    return "\n".join((*status[:4], file, str(changed)))
