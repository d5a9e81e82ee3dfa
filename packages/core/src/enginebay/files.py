"""Atomic replacement of a file: if the disk is full, the file keeps its old content."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from enginebay.errors import disk_error, disk_failure

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file atomically; create its folder if necessary.

    Raises:
        EnginebayError: The disk is full or read-only.
        OSError: The file cannot be written for another reason.
    """
    # The process id, since several processes may write the same file at once.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            # Otherwise the rename may reach the disk first, and a crash leaves an empty file.
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException as err:
        with suppress(OSError):
            part.unlink()
        if isinstance(err, OSError):
            _raise_with_name(err, path)
        raise


def _raise_with_name(err: OSError, path: Path) -> NoReturn:
    # A failed write has no file name, and an error about the temporary file has the wrong one.
    if err.filename is None or str(err.filename).endswith(".part"):
        err.filename, err.filename2 = str(path), None
    if disk_error(err):
        raise disk_failure(err) from err
    raise err
