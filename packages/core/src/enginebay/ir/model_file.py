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
            is_empty = not stream.read(1)
    except FileNotFoundError as err:
        raise ModelSourceError(f"no file '{path}'") from err
    except OSError as err:
        raise ModelSourceError(f"'{path}' cannot be read: {err.strerror}") from err
    if is_empty:
        raise ModelSourceError(f"'{path}' is empty")
