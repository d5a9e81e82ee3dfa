"""Files that several processes share: atomic replacement, and locks.

A replaced file has its old or its new content at any moment, also after a crash or on a full disk.
A lock is held by one process at a time, and the operating system releases the locks of a killed
process. Some network file systems have no locks: there, the block runs without the lock.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, NoReturn

from enginebay.errors import disk_error, disk_failure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file atomically; create its folder if necessary.

    Raises:
        EnginebayError: The disk is full or read-only.
        OSError: The file cannot be written for another reason.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacement(path) as file:
            file.write(data)
    except OSError as err:
        _raise_with_name(err, path)


@contextmanager
def replacement(path: Path, *, folder: int | None = None) -> Iterator[BinaryIO]:
    """Yield a new file, open for writing, that replaces ``path`` at the end of the ``with`` block.

    If the block raises, the new file is removed, and ``path`` keeps its old content. The new file
    has the permissions of the old one.

    Args:
        path: The file to replace, which does not have to exist.
        folder: The descriptor of an open folder, to which ``path`` is then relative: another folder
            that has taken the folder's name in the meantime stays as it is.

    Raises:
        OSError: The file cannot be written.
    """
    mode = 0o666
    with suppress(OSError):
        mode = os.stat(path, dir_fd=folder).st_mode & 0o777
    # A name of its own, since several processes and threads may replace the same file at once.
    part = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    descriptor = os.open(part, flags, mode, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            # Otherwise the rename may reach the disk first, and a crash leaves an empty file.
            os.fsync(file.fileno())
        os.replace(part, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(part, dir_fd=folder)
        raise


def _raise_with_name(err: OSError, path: Path) -> NoReturn:
    # A failed write has no file name, and an error about the temporary file has the wrong one.
    if err.filename is None or str(err.filename).endswith(".part"):
        err.filename, err.filename2 = str(path), None
    if disk_error(err):
        raise disk_failure(err) from err
    raise err


class Lock(NamedTuple):
    """The lock of a file or folder.

    Attributes:
        descriptor: The descriptor of the open file or folder, until the lock is released.
        is_held: False on a file system without locks.
    """

    descriptor: int
    is_held: bool


#: The descriptors of the locks that this process holds.
_held: set[int] = set()


@contextmanager
def lock_file(path: Path, *, wait: bool = True) -> Iterator[Lock]:
    """Hold the lock of a file during the ``with`` block; create the file if it does not exist.

    A file that is replaced needs a lock file next to it: a lock belongs to the file that was
    opened, and not to its name.

    Args:
        path: The file. A symbolic link is not followed.
        wait: Wait until no other process holds the lock.

    Raises:
        BlockingIOError: Another process holds the lock, and ``wait`` is False.
        OSError: The file cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except PermissionError:  # another user's file, which can be read
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with _hold(descriptor, wait=wait) as lock:
        yield lock


@contextmanager
def lock_folder(path: Path, *, wait: bool = True) -> Iterator[Lock]:
    """Hold the lock of a folder during the ``with`` block.

    Args:
        path: The folder.
        wait: Wait until no other process holds the lock.

    Raises:
        BlockingIOError: Another process holds the lock, and ``wait`` is False.
        OSError: The folder cannot be opened.
    """
    with _hold(os.open(path, os.O_RDONLY | os.O_DIRECTORY), wait=wait) as lock:
        yield lock


@contextmanager
def _hold(descriptor: int, *, wait: bool) -> Iterator[Lock]:
    import fcntl  # not on Windows, where importing this module must not fail

    _held.add(descriptor)
    try:
        is_held = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise
        except OSError:
            is_held = False
        yield Lock(descriptor, is_held)
    finally:
        _release(descriptor)


def _release(*descriptors: int) -> None:
    for descriptor in _held.intersection(descriptors):
        _held.remove(descriptor)
        os.close(descriptor)


if hasattr(os, "register_at_fork"):  # not on Windows
    # The locks are the parent's: a pool's forked workers may live longer than the parent does.
    os.register_at_fork(after_in_child=lambda: _release(*_held))
