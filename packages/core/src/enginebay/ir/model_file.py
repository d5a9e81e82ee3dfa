"""Check of a model's file before a reader of its format opens it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from pathlib import Path


def check_file(path: Path) -> None:
    """Raise ModelSourceError unless the path is a file that can be read and is not empty."""
    # Reading from a pipe or a device may block forever.
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ModelSourceError(f"'{path}': expected a file, found a pipe or a device")
    try:
        with path.open("rb") as stream:
            start = stream.read(32)
    except FileNotFoundError as err:
        raise ModelSourceError(f"no file '{path}'") from err
    except OSError as err:
        raise ModelSourceError(f"'{path}' cannot be read: {err.strerror}") from err
    if not start:
        raise ModelSourceError(f"'{path}' is empty")
    # What a download leaves that fetched no file.
    if start.startswith(b"version https://git-lfs"):
        raise ModelSourceError(
            f"'{path}' is a pointer of Git LFS, not the file itself",
            hint=f"git lfs pull --include '*{path.name}'",
        )
    if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise ModelSourceError(f"'{path}' is a web page", hint="download the file itself")
