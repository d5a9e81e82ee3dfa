"""Read a folder that another process may replace meanwhile, so that all is of one folder."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from enginebay.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_T = TypeVar("_T")

#: How often a reader starts again. Where three writers did nothing else, one read of a small
#: artifact in 60 met a replacement.
ATTEMPTS = 100


def read_whole(folder: Path, read: Callable[[], _T]) -> _T:
    """Return the result of a reader that met one folder at this path throughout.

    Args:
        folder: The folder's path; a folder that is to replace another is exchanged with it.
        read: Reads what it likes of it. Called again if the folder was replaced meanwhile,
            whatever it then returned, which is closed, or raised.

    Raises:
        ArtifactError: The folder was replaced at every attempt.
    """
    for _ in range(ATTEMPTS):
        with _held(folder) as is_there:
            try:
                result = read()
            except Exception:
                if is_there():
                    raise
                continue
            if is_there():
                return result
            if close := getattr(result, "close", None):
                close()
    raise ArtifactError(
        f'"{folder}" was replaced each of the {ATTEMPTS} times that it was read',
        hint="stop what replaces it all the time",
    )


@contextmanager
def _held(folder: Path) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns True as long as the folder of now has its path.

    It is open meanwhile, so that no new folder gets its inode number.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # reading it will say what is wrong
        yield lambda: True
        return
    try:
        yield lambda: _is_at(descriptor, folder)
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, folder: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat())
    except OSError:
        return False
