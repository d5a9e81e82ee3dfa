"""Consistent reading of a folder that another process may replace at the same time."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from enginebay.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_T = TypeVar("_T")

#: The maximum number of attempts. With three processes that did nothing but replace a small
#: artifact, one read in 60 met a replacement.
ATTEMPTS = 100


def read_consistently(folder: Path, read: Callable[[], _T]) -> _T:
    """Return the result of ``read``; repeat the call if another process replaced the folder.

    Args:
        folder: The folder's path.
        read: A function that reads the folder. If the folder was replaced during the call, the
            result is closed or the exception is ignored, and the function is called again.

    Raises:
        ArtifactError: The folder was replaced at every attempt.
    """
    for _ in range(ATTEMPTS):
        with _watch_folder(folder) as is_unchanged:
            try:
                result = read()
            # The replacement may be the cause of the error.
            except Exception:
                if is_unchanged():
                    raise
                continue
            if is_unchanged():
                return result
            if close := getattr(result, "close", None):
                close()
    raise ArtifactError(
        f'"{folder}" was replaced during each of {ATTEMPTS} attempts to read it',
        hint="stop the process that replaces the folder",
    )


@contextmanager
def _watch_folder(folder: Path) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns False once the path leads to another folder than now."""
    try:
        # Open until the end, so that no new folder gets its inode number.
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # the reader raises a better error
        yield lambda: True
        return
    try:
        yield lambda: _is_same_folder(descriptor, folder)
    finally:
        os.close(descriptor)


def _is_same_folder(descriptor: int, folder: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat())
    except OSError:
        return False
