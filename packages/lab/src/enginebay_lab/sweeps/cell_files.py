"""Finds the files of a sweep cell (one model, backend, precision), and checks a worker's files."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.authors.files import read_onnx
from enginebay.errors import EnginebayError, UsageError, check_text
from enginebay_lab.resources import host_name
from enginebay_lab.sweeps.faults import CellLostError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def find_files(text: str, folder: str = "") -> dict[str, str]:
    """Return a digest of the file that a text refers to, and of the weight files of an ONNX model.

    Args:
        text: A model, a data set, a metric or an input, as on the command line.
        folder: The folder that relative paths start in; empty for the current folder.

    Returns:
        For each absolute path, the SHA-256 of the file, or an empty text for a folder. The dict is
        empty if the text refers to a module, a plugin's object or a shape instead of a file.

    Raises:
        UsageError: The path is not valid text in this locale, or the file cannot be read.
    """
    for name in _possible_paths(text):
        if name and Path(folder, name).exists():
            # Not resolve(): a model's weights are next to the link, not next to its target.
            path = Path(os.path.abspath(Path(folder, name)))  # noqa: PTH100
            check_text(str(path))
            return {str(part): _digest_path(part) for part in _model_files(path)}
    return {}


def check_files(files: Mapping[str, str]) -> None:
    """Check that this machine has the same files as the client, at the same paths.

    Args:
        files: The result of :func:`find_files` on the client, the machine that runs the sweep.

    Raises:
        CellLostError: A file is missing or different.
    """
    for path, expected in files.items():
        try:
            digest = digest_file(Path(path)) if expected else "" if Path(path).is_dir() else None
        except OSError:
            digest = None
        if digest != expected:
            problem = f"cannot read '{path}'"
            if digest:
                problem = f"has a different file '{path}', expected sha256 {expected}"
            raise CellLostError(
                "not seen",
                f"{host_name()} {problem}",
                hint="put the file on a file system that all machines mount at the same path",
            )


def _possible_paths(text: str) -> Iterator[str]:
    """Yield the paths that a text ``path``, ``path:attribute`` or ``input=path`` may contain."""
    yield text
    file = text.rpartition(":")[0]
    if file.endswith(".py"):
        yield file
    value = text.rpartition("=")[2]
    if value.endswith((".npy", ".npz")):
        yield value


def _model_files(path: Path) -> tuple[Path, ...]:
    """Return the path, and for an ONNX model also the paths of its weight files."""
    if path.suffix.lower() != ".onnx":
        return (path,)
    with suppress(EnginebayError, OSError):  # running the cell reports a broken model
        return _read_onnx_files(path, *_file_signature(path))
    return (path,)


@lru_cache(maxsize=1024)
def _read_onnx_files(path: Path, *_: int) -> tuple[Path, ...]:
    return tuple(dict.fromkeys((path, *read_onnx(path).files)))


def _digest_path(path: Path) -> str:
    """Return the SHA-256 of a file; empty for a folder.

    Raises:
        UsageError: The file cannot be read, or it is a pipe or a device.
    """
    try:
        return "" if path.is_dir() else digest_file(path)
    except OSError as err:
        raise UsageError(f"'{path}' cannot be read: {err.strerror or err}") from err


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file, cached until the file changes.

    Raises:
        OSError: The file cannot be read.
    """
    return _digest_content(path, *_file_signature(path))


def _file_signature(path: Path) -> tuple[int, int, int]:
    """Return a cache key of a file, which differs after each change of the file.

    Raises:
        OSError: The file cannot be read, or is a pipe or a device.
    """
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):  # reading a pipe or a device may never end
        raise OSError("not a regular file")
    return info.st_size, info.st_mtime_ns, info.st_ino


@lru_cache(maxsize=1024)
def _digest_content(path: Path, *_: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
