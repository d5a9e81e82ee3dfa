"""Check of the files that a converter returns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from enginebay.errors import ConversionError


def check_output_files(listed: Any, work_dir: Path, backend: str) -> tuple[Path, ...]:
    """Check the files that ``to_backend`` returned; return their paths relative to ``work_dir``.

    Args:
        listed: The hook's return value.
        work_dir: The folder that must contain the files.
        backend: The backend's name, for messages.

    Raises:
        ConversionError: The value is not a list of files, or a file is missing, empty or outside
            ``work_dir``.
    """
    # A single path as text would pass as a list of one-letter paths.
    is_list = isinstance(listed, Iterable) and not isinstance(listed, str | Path)
    paths = list(listed) if is_list else []
    if not is_list or not all(isinstance(path, str | Path) for path in paths):
        raise ConversionError(
            f"to_backend of '{backend}' returned {listed!r:.80}: expected a list of files"
        )
    if not paths:
        raise ConversionError(f"backend '{backend}' wrote no file")
    return tuple(_check_file(path, work_dir.resolve(), backend) for path in paths)


def _check_file(path: str | Path, root: Path, backend: str) -> Path:
    # Resolved, since a link may lead out of the folder.
    file = (root / path).resolve()
    if not file.is_relative_to(root):
        raise ConversionError(f"backend '{backend}' wrote '{file}' outside its work_dir")
    name = file.relative_to(root)
    if not file.is_file() or not file.stat().st_size:
        fault = "empty" if file.is_file() else "missing"
        raise ConversionError(
            f"backend '{backend}' returned the file '{name}', which is {fault}",
            hint=f"to_backend of '{backend}' must return existing files that are not empty",
        )
    return name
