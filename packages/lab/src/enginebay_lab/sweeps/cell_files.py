"""The files that a cell names: found on the client, and again on the machine that runs it."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.authors import read_onnx
from enginebay.errors import EnginebayError, UsageError, check_text
from enginebay_lab.resources import host_name
from enginebay_lab.sweeps.faults import CellLostError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def find_files(text: str, folder: str = "") -> dict[str, str]:
    """Find the file that a text names, and those that belong to it, as an ONNX model's weights do.

    Args:
        text: A model, a data set, a metric or an input, as on the command line.
        folder: Where relative paths begin; empty for the current folder.

    Returns:
        The sha256 of each by its absolute path, empty for a folder. Nothing where the text names no
        file that is here, but a module, a name of a plugin or a shape.

    Raises:
        UsageError: The path is not text in this locale, or the file cannot be read.
    """
    for name in _readings(text):
        if name and Path(folder, name).exists():
            path = _absolute(str(Path(folder, name)))
            check_text(str(path))
            return {str(each): _digest_of(each) for each in _with_parts(path)}
    return {}


def check_files(files: Mapping[str, str]) -> None:
    """Check that the files are on the machine that runs the cell, at the same paths.

    Args:
        files: What :func:`find_files` found on the client.

    Raises:
        CellLostError: One is not here, or is another file.
    """
    for path, wanted in files.items():
        try:
            found = digest(Path(path)) if wanted else "" if Path(path).is_dir() else None
        except OSError:
            found = None
        if found != wanted:
            state = "does not see" if found is None else "has another file"
            what = f" with sha256 {wanted}" if found else ""
            raise CellLostError(
                "not seen",
                f"{host_name()} {state} '{path}'" + (f", wanted one{what}" if what else ""),
                hint="put it on a file system that all machines have at the same path",
            )


def _absolute(name: str) -> Path:
    # Not resolve(): a model's weights lie beside the link, as elsewhere.
    return Path(os.path.abspath(name))  # noqa: PTH100


def _readings(text: str) -> Iterator[str]:
    """The paths that a text may name: a path, ``path:attribute``, ``input=path``."""
    yield text
    file = text.rpartition(":")[0]
    if file.endswith(".py"):
        yield file
    value = text.rpartition("=")[2]
    if value.endswith((".npy", ".npz")):
        yield value


def _with_parts(path: Path) -> tuple[Path, ...]:
    """The file and, of an ONNX model, the files of its weights."""
    if path.suffix.lower() != ".onnx":
        return (path,)
    with suppress(EnginebayError, OSError):  # whoever runs the cell says what is wrong with it
        return _onnx_files(path, *_signature(path))
    return (path,)


@lru_cache(maxsize=1024)
def _onnx_files(path: Path, *_: int) -> tuple[Path, ...]:
    return tuple(dict.fromkeys((path, *read_onnx(path).files)))


def _digest_of(path: Path) -> str:
    """The sha256 of a file, empty for a folder.

    Raises:
        UsageError: The system refuses it, or it is a pipe or a device.
    """
    try:
        return "" if path.is_dir() else digest(path)
    except OSError as err:
        raise UsageError(f"'{path}' cannot be read: {err.strerror or err}") from err


def digest(path: Path) -> str:
    """Return the sha256 of a file; one that is unchanged is read once in a process.

    Raises:
        OSError: It cannot be read.
    """
    return _digest(path, *_signature(path))


def _signature(path: Path) -> tuple[int, int, int]:
    """What differs once a file has changed, without reading it.

    Raises:
        OSError: It cannot be seen, or is a pipe or a device, which would never end.
    """
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise OSError("it is not a regular file")
    return info.st_size, info.st_mtime_ns, info.st_ino


@lru_cache(maxsize=1024)
def _digest(path: Path, *_: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
