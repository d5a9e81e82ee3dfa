"""Exchange of the names of two directories, which is atomic on Linux."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_AT_FDCWD = -100  # fcntl.h: paths are relative to the current directory
_RENAME_EXCHANGE = 2  # linux/fs.h
#: Errors of an old kernel, or of a file system that cannot exchange names.
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def exchange_directories(first: Path, second: Path) -> None:
    """Exchange the names of two directories.

    On Linux the exchange is atomic. On other systems, ``second`` is first renamed to
    ``.NAME.replaced-…`` in the same folder, and keeps this name if the process is then killed.

    Raises:
        OSError: The exchange failed; both directories are unchanged.
    """
    if not _exchange_atomically(first, second):
        exchange_by_renames(first, second)


def _exchange_atomically(first: Path, second: Path) -> bool:
    """Exchange two names by one system call; return False if the call is not supported here."""
    # Python does not wrap renameat2, and not every C library has it: glibc does since 2.28.
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


def exchange_by_renames(first: Path, second: Path) -> None:
    """Exchange two names by three renames, which are undone if one fails."""
    # Cut, since most file systems limit a name to 255 bytes.
    aside = second.parent / f".{second.name[:50]}.replaced-{secrets.token_hex(8)}"
    try:
        second.rename(aside)
        first.rename(second)
    except BaseException:
        # The second rename has failed: undo the first.
        if aside.exists() and not second.exists():
            aside.rename(second)
        raise
    aside.rename(first)
