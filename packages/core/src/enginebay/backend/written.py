"""What a converter says that it wrote is not taken at its word."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from enginebay.errors import ConversionError


def written_files(answer: Any, work_dir: Path, backend: str) -> tuple[Path, ...]:
    """The files that ``to_backend`` answered, relative to the folder they are in.

    Args:
        answer: What the hook answered.
        work_dir: Where the files must be.
        backend: The backend's name, for messages.

    Raises:
        ConversionError: It is no list of files, or one of them is missing, empty or elsewhere.
    """
    listed = [] if isinstance(answer, str | Path) or not isinstance(answer, Iterable) else answer
    paths = list(listed)
    if listed is not answer or not all(isinstance(path, str | Path) for path in paths):
        raise ConversionError(
            f"to_backend of '{backend}' answered {answer!r}: wanted a list of files"
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
            hint=f"to_backend of '{backend}' answers files that are not empty, and no others",
        )
    return name
