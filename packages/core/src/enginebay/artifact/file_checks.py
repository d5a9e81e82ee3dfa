"""The files of an artifact: listed with their digests, and checked against that list."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from enginebay.artifact.manifest import MANIFEST_NAME, FileEntry
from enginebay.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Iterator


def list_files(root: Path) -> tuple[FileEntry, ...]:
    """Every file under ``root`` with its digest, in the order of their paths, flushed to disk.

    Raises:
        ArtifactError: Something in it is not a regular file, or has a name that JSON cannot hold.
        OSError: A file cannot be read, or the disk does not take it.
    """
    paths = sorted(walk(root))
    return tuple(_entry(root, path) for path in paths if path != MANIFEST_NAME)


def walk(root: Path) -> Iterator[str]:
    """The paths, relative to ``root``, of everything under it that is not a directory."""

    def complain(error: OSError) -> None:
        raise error

    for folder, directories, files in os.walk(root, onerror=complain):
        links = [name for name in directories if Path(folder, name).is_symlink()]
        for name in (*files, *links):
            yield Path(folder, name).relative_to(root).as_posix()


def _entry(root: Path, path: str) -> FileEntry:
    """One file's path, digest and size."""
    if not _is_portable(path):
        raise ArtifactError(f"the artifact cannot hold a file named {path!r}; wanted a plain name")
    mode = (root / path).lstat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "not a file"
        raise ArtifactError(f'the artifact cannot hold "{path}": it is {kind}; wanted its content')
    with (root / path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
        return FileEntry(path, digest, os.fstat(file.fileno()).st_size)


def check_paths(entries: tuple[FileEntry, ...], where: Path) -> None:
    """Refuse a list of files that leaves the artifact, or names one twice; looks at no file.

    Raises:
        ArtifactError: Names the path.
    """
    seen: set[str] = set()
    for entry in entries:
        if not _is_portable(entry.path) or entry.path == MANIFEST_NAME:
            raise ArtifactError(
                f'"{where}" lists the file {entry.path!r}; wanted a path inside the artifact'
            )
        if entry.path in seen:
            raise ArtifactError(f'"{where}" lists the file "{entry.path}" twice')
        seen.add(entry.path)


def _is_portable(path: str) -> bool:
    """True where a path stays below its root, on any system, and is spelt in one way only."""
    try:
        path.encode()
    except UnicodeEncodeError:  # bytes of a file name that are not UTF-8
        return False
    parts = PurePosixPath(path).parts
    plain = not any(char in path for char in "\\:\0") and ".." not in parts
    return bool(parts) and plain and "/".join(parts) == path


def check_file(root: Path, entry: FileEntry) -> None:
    """Refuse a file that is not, byte for byte, the one that was listed.

    Raises:
        ArtifactError: Names the file, what was wanted and what was found.
        OSError: It cannot be read.
    """
    path = check_presence(root, entry)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != entry.sha256:
        raise ArtifactError(
            f'"{path}" was changed: wanted sha256 {entry.sha256}, found {digest}', hint=HINT
        )


def check_presence(root: Path, entry: FileEntry) -> Path:
    """A listed file's own path; it is there, is a file inside ``root``, and has the right size.

    Raises:
        ArtifactError: Names the file, what was wanted and what was found.
    """
    path = root / entry.path
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(root):
        raise ArtifactError(f'"{path}" leads out of the artifact, to "{real}"', hint=HINT)
    try:
        info = real.lstat()
    except (FileNotFoundError, NotADirectoryError):
        raise ArtifactError(f'"{path}" is missing; the manifest lists it', hint=HINT) from None
    if not stat.S_ISREG(info.st_mode):
        raise ArtifactError(f'"{path}" is not a regular file', hint=HINT)
    if info.st_size != entry.size:
        state = _state(info.st_size, entry.size)
        raise ArtifactError(
            f'"{path}" {state}: wanted {entry.size} bytes, found {info.st_size}', hint=HINT
        )
    return path


HINT = "copy the whole artifact again, or make it again with the command in its manifest"


def _state(found: int, wanted: int) -> str:
    """Describe a file of another size, in words."""
    if found == 0:
        return "is empty"
    return "is truncated" if found < wanted else "was changed"
