"""Answers about plugins that outlive the process, in the user's cache folder.

One small file holds them all, the latest last. Without a writable folder nothing is cached, and
each process tries again.
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

#: Older answers are dropped; tests with plugins of their own would let the file grow without end.
MAX_ANSWERS = 100

_Answers = dict[str, str]


def read_answer(status: BackendStatus) -> str | None:
    """Return the cached answer about a plugin as it is installed now; None if it has none."""
    return _read().get(_key(status))


def store_answer(status: BackendStatus, answer: str) -> None:
    """Cache an answer about a plugin until another version of it is installed."""
    answers = _read()
    answers.pop(_key(status), None)
    _write({**answers, _key(status): answer})


def drop_others(answer: str) -> None:
    """Drop all answers that differ from ``answer``."""
    _write({key: kept for key, kept in _read().items() if kept == answer})


def _file() -> Path:
    return Path(cache_folder()) / "plugins.json"


def _read() -> _Answers:
    # No file, no home, or another version's format: an empty cache.
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_file().read_bytes(), type=_Answers)
    return {}


def _write(answers: _Answers) -> None:
    """Replace the file at once: others may read or replace it in the same moment."""
    data = msgspec.json.encode(dict(list(answers.items())[-MAX_ANSWERS:]))
    with suppress(OSError, EnginebayError):
        write_whole(_file(), data)


def _key(status: BackendStatus) -> str:
    """Return the cache key of a plugin: its version, and its file where it is edited."""
    file = module_file(status.module)
    changed = Path(file).stat().st_mtime_ns if file else 0
    return "\n".join((*status[:4], file, str(changed)))
