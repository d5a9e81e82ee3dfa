"""Digests of an artifact's files, and checks of the files against their digests."""

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
    """Flush all files under ``root`` to disk, and list them with digests, sorted by path.

    Raises:
        ArtifactError: An entry is not a regular file, or its name is not portable.
        OSError: A file cannot be read or flushed to disk.
    """
    paths = sorted(walk_files(root))
    return tuple(_describe_file(root, path) for path in paths if path != MANIFEST_NAME)


def walk_files(root: Path) -> Iterator[str]:
    """Yield the relative path of every entry under ``root`` that is not a directory."""

    # os.walk ignores a folder that it cannot list, unless this raises.
    def raise_error(error: OSError) -> None:
        raise error

    for folder, directories, files in os.walk(root, onerror=raise_error):
        links = [name for name in directories if Path(folder, name).is_symlink()]
        for name in (*files, *links):
            yield Path(folder, name).relative_to(root).as_posix()


def _describe_file(root: Path, path: str) -> FileEntry:
    if not _is_portable(path):
        raise ArtifactError(
            f"invalid file name {path!r} in the artifact: expected a plain relative path"
        )
    mode = (root / path).lstat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "a special file"
        raise ArtifactError(f'invalid "{path}" in the artifact: expected a file, found {kind}')
    with (root / path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        # A rename does not flush the content of files.
        os.fsync(file.fileno())
        return FileEntry(path, digest, os.fstat(file.fileno()).st_size)


def check_paths(entries: tuple[FileEntry, ...], where: Path) -> None:
    """Check the paths of all files in the manifest at ``where``.

    Raises:
        ArtifactError: A path is not inside the artifact, or is listed twice.
    """
    seen: set[str] = set()
    for entry in entries:
        if not _is_portable(entry.path) or entry.path == MANIFEST_NAME:
            raise ArtifactError(
                f'"{where}" lists the file {entry.path!r}: expected a path inside the artifact'
            )
        if entry.path in seen:
            raise ArtifactError(f'"{where}" lists the file "{entry.path}" twice')
        seen.add(entry.path)


def _is_portable(path: str) -> bool:
    """Return True if a relative path is normalized and, on any system, stays below the root."""
    try:
        path.encode()
    except UnicodeEncodeError:  # bytes of a file name that are not UTF-8
        return False
    parts = PurePosixPath(path).parts
    # On Windows, "\" separates folders and ":" follows a drive.
    is_plain = not any(char in path for char in "\\:\0") and ".." not in parts
    return bool(parts) and is_plain and "/".join(parts) == path


def check_file(root: Path, entry: FileEntry) -> None:
    """Check that a file has the size and the digest that ``entry`` records.

    Raises:
        ArtifactError: The file is missing or different; the message has both values.
        OSError: The file cannot be read.
    """
    path = check_presence(root, entry)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != entry.sha256:
        raise ArtifactError(
            f'"{path}" was changed: expected sha256 {entry.sha256}, found {digest}',
            hint=REBUILD_HINT,
        )


def check_presence(root: Path, entry: FileEntry) -> Path:
    """Check that a file is inside ``root`` and has the size in ``entry``; return the file's path.

    Raises:
        ArtifactError: The file is missing, outside ``root`` or of another size.
    """
    path = root / entry.path
    real = Path(os.path.realpath(path))
    # Digests do not show that a link leads to a file outside the artifact.
    if not real.is_relative_to(root):
        raise ArtifactError(f'"{path}" leads out of the artifact, to "{real}"', hint=REBUILD_HINT)
    try:
        info = real.lstat()
    except (FileNotFoundError, NotADirectoryError):
        raise ArtifactError(
            f'"{path}" is missing, but listed in the manifest', hint=REBUILD_HINT
        ) from None
    if not stat.S_ISREG(info.st_mode):
        raise ArtifactError(f'"{path}" is not a regular file', hint=REBUILD_HINT)
    if info.st_size != entry.size:
        state = _describe_size(info.st_size, entry.size)
        raise ArtifactError(
            f'"{path}" {state}: expected {entry.size} bytes, found {info.st_size}',
            hint=REBUILD_HINT,
        )
    return path


REBUILD_HINT = "copy the whole artifact again, or rebuild it with the command in its manifest"


def _describe_size(found: int, expected: int) -> str:
    if found == 0:
        return "is empty"
    return "is truncated" if found < expected else "was changed"
