"""The local files, and the environment's variables, that the code of a ``with`` block reads.

A later deployment compares their digests, and then need not load the model to know that nothing
has changed. Libraries count by their versions: a file below ``site-packages`` is not local.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from enginebay.plugins import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

#: The paths that the current blocks have opened; several threads may deploy at once.
_blocks: list[set[str]] = []
_lock = Lock()

#: The class of ``os.environ``, whose reads no audit hook hears.
_Environ: Any = type(os.environ)
_READ = _Environ.__getitem__


@contextmanager
def watch_files() -> Iterator[set[str]]:
    """Yield a set, to which each file that Python opens for reading in the block is added.

    A variable of the environment that local code reads is added as ``$NAME``. What a library opens
    in C++ or Rust is missing, as are the imported modules.
    """
    _add_hook()
    opened: set[str] = set()
    with _lock:
        _blocks.append(opened)
        _Environ.__getitem__ = _read_variable
    try:
        yield opened
    finally:
        with _lock:
            _blocks[:] = [block for block in _blocks if block is not opened]
            if not _blocks:
                _Environ.__getitem__ = _READ


def _read_variable(variables: object, name: str) -> str:
    _hear_variable(name, sys._getframe(1))
    return str(_READ(variables, name))


def _hear_variable(name: str, frame: FrameType | None) -> None:
    while frame and frame.f_code.co_filename.startswith("<frozen"):  # os.getenv, environ.get
        frame = frame.f_back
    # Code that names no variable copies them all, for a process that it starts.
    if frame and name in frame.f_code.co_consts and _is_local_code(frame.f_code.co_filename):
        for block in [*_blocks]:
            block.add(f"${name}")


@cache
def _is_local_code(file: str) -> bool:
    return _is_local(str(Path(file).absolute()), _versioned_folders())


@cache
def _add_hook() -> None:
    sys.addaudithook(_hear)  # cannot be removed
    _foreign_folders()  # reads variables itself


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or not _blocks:
        return
    path, _, flags = arguments
    if isinstance(path, str | bytes | os.PathLike) and isinstance(flags, int):
        writes = flags & (os.O_WRONLY | os.O_RDWR)
        if not writes:
            with suppress(OSError):  # the current folder is gone
                for block in [*_blocks]:
                    block.add(str(Path(os.fsdecode(path)).absolute()))


def digest_files(paths: Iterable[str], *, apart_from: Path) -> dict[str, str]:
    """Return path → SHA-256 of the local files among ``paths``.

    Args:
        paths: Files, folders with all that is in them, and variables as ``$NAME``.
        apart_from: A folder whose files are left out.
    """
    names = {*paths}
    variables = {name for name in names if name.startswith("$")}
    others = (*_versioned_folders(), f"{apart_from}/")
    found: set[str] = set()
    for path in map(os.path.normpath, names - variables):
        if _is_local(path, others):
            found |= {*map(str, Path(path).rglob("*"))} if Path(path).is_dir() else {path}
    return {
        path: digest
        for path in sorted(found)
        if _is_local(path, others) and (digest := _digest(Path(path)))
    } | {name: _digest_variable(name[1:]) for name in sorted(variables)}


def _digest_variable(name: str) -> str:
    value = os.environ.get(name)
    return "unset" if value is None else hashlib.sha256(value.encode()).hexdigest()


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal; an empty text if it cannot be read."""
    if not path.is_file():  # a pipe would wait for its writer
        return ""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def module_files() -> Iterator[str]:
    """Yield the files of the imported modules."""
    for module in [*sys.modules.values()]:
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield str(Path(file).absolute())


def _is_local(path: str, others: tuple[str, ...]) -> bool:
    """Return True for a file that is in no folder of packages and in none of ``others``."""
    packages = {"site-packages", "dist-packages", "__pycache__"}
    return not path.startswith(others) and packages.isdisjoint(path.split("/"))


def _versioned_folders() -> tuple[str, ...]:
    """Return the foreign folders, and those of Enginebay's packages, also in a clone."""
    own = (
        folder
        for name, module in [*sys.modules.items()]
        if name.startswith("enginebay") and "." not in name
        for folder in getattr(module, "__path__", ())  # a user's file has none
    )
    return tuple(f"{folder}/" for folder in (*_foreign_folders(), *own))


@cache
def _foreign_folders() -> tuple[str, ...]:
    """Return the folders of the system, of Python, and of Enginebay's cache."""
    python = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
    return ("/proc", "/sys", "/dev", "/etc", "/usr", sys.prefix, cache_folder(), *python)
