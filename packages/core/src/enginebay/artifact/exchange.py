"""Two directories change places, with no moment at which a name is gone where Linux can do that."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_AT_FDCWD = -100  # fcntl.h: paths are meant as they are written
_RENAME_EXCHANGE = 2  # linux/fs.h
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def exchange(first: Path, second: Path) -> None:
    """Give each of two directories the other's name.

    In one step on Linux. Elsewhere ``second`` is moved aside first; if the process is killed in
    that moment, it stays whole beside its place, as ``.NAME.replaced-…``.

    Raises:
        OSError: They are as they were.
    """
    if not _exchange_at_once(first, second):
        exchange_in_turn(first, second)


def _exchange_at_once(first: Path, second: Path) -> bool:
    """The exchange as one system call; False where the system or the file system has none."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    renameat2.argtypes = [
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_uint,
    ]
    names = os.fsencode(first), os.fsencode(second)
    if renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(second))


def exchange_in_turn(first: Path, second: Path) -> None:
    """The exchange as three renames, undone if one fails."""
    aside = second.parent / f".{second.name[:50]}.replaced-{secrets.token_hex(8)}"
    try:
        second.rename(aside)
        first.rename(second)
    except BaseException:
        if aside.exists() and not second.exists():
            aside.rename(second)
        raise
    aside.rename(first)
