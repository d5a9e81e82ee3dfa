"""Check the list of files that a converter returned."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from enginebay.errors import ConversionError


def written_files(listed: Any, work_dir: Path, backend: str) -> tuple[Path, ...]:
    """The files that ``to_backend`` listed, relative to the folder they are in.

    Args:
        listed: The return value of the hook.
        work_dir: Where the files must be.
        backend: The backend's name, for messages.

    Raises:
        ConversionError: It is not a list of files, or a file is missing, empty or outside.
    """
    is_list = isinstance(listed, Iterable) and not isinstance(listed, str | Path)
    paths = list(listed) if is_list else []
    if not is_list or not all(isinstance(path, str | Path) for path in paths):
        raise ConversionError(
            f"to_backend of '{backend}' returned {listed!r:.80}: expected a list of files"
        )
    if not paths:
        raise ConversionError(f"backend '{backend}' wrote no file")
    return tuple(_relative(path, work_dir.resolve(), backend) for path in paths)


def _relative(path: str | Path, root: Path, backend: str) -> Path:
    file = (root / path).resolve()
    if not file.is_relative_to(root):
        raise ConversionError(f"backend '{backend}' wrote '{file}' outside its work_dir")
    name = file.relative_to(root)
    if not file.is_file() or not file.stat().st_size:
        fault = "empty" if file.is_file() else "missing"
        raise ConversionError(
            f"backend '{backend}' promised the file '{name}', which is {fault}",
            hint=f"to_backend of '{backend}' returns files that are not empty, and no others",
        )
    return name
