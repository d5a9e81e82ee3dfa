"""The folder of cached builds: each entry is a folder with the files and a description.

Entries are created and deleted by atomic renames. So several processes may share the folder without
a lock: an entry that is deleted while another process reads it is a miss for that process. The
digest of a file is checked when the file is used.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import msgspec
from platformdirs import user_cache_path

from enginebay.errors import UsageError
from enginebay_build_cache.key import Key

if TYPE_CHECKING:
    from collections.abc import Iterable

DESCRIPTION = "entry.json"
DEFAULT_LIMIT = "10G"
#: The age at which the folder of a killed process is deleted; builds take less time.
ABANDONED_SECONDS = 24 * 3600
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class File(msgspec.Struct, frozen=True):
    """One file of a build.

    Attributes:
        path: The path relative to the build's folder, with ``/`` as separator.
        sha256: The SHA-256 of the content, in hex.
        size: The size of the file in bytes.
    """

    path: str
    sha256: str
    size: int


class Description(msgspec.Struct, frozen=True):
    """What the cache records about a build, stored as JSON next to the files.

    Attributes:
        key: The cache key of the build.
        files: The files in the order in which the backend returned them.
        built: The time of the build, in seconds since 1970.
        seconds: The duration of the build.
        missed: The reasons why the build was not in the cache, one line each.
        links: The paths at which the build has links to the IR.
    """

    key: Key
    files: tuple[File, ...]
    built: float
    seconds: float
    missed: tuple[str, ...]
    links: tuple[str, ...] = ()


class Entry(msgspec.Struct, frozen=True):
    """One entry of the cache.

    Attributes:
        digest: The name of the entry's folder: the digest of the key.
        about: The key, the list of files and the duration of the build.
        used: The time of the last use or, if there was none, of the build, in seconds since 1970.
    """

    digest: str
    about: Description
    used: float

    @property
    def size(self) -> int:
        """The size of all files in bytes."""
        return sum(file.size for file in self.about.files)


class DamagedError(Exception):
    """Error for an entry that was changed after it was stored; the cache has deleted the entry."""


class Store:
    """A folder of cached builds.

    Args:
        root: The folder; it is created with the first entry.
        limit: The maximum total size of the cached files, in bytes.
    """

    def __init__(self, root: Path, limit: int) -> None:
        self.root = root
        self.limit = limit
        self._entries = root / "entries"
        self._scratch = root / "scratch"

    @classmethod
    def from_environment(cls) -> Store:
        """Create the store from ``ENGINEBAY_CACHE_DIR`` and ``ENGINEBAY_CACHE_SIZE``.

        Raises:
            UsageError: The size is not valid.
        """
        folder = os.environ.get("ENGINEBAY_CACHE_DIR")
        root = Path(folder).expanduser() if folder else user_cache_path("enginebay") / "builds"
        size = os.environ.get("ENGINEBAY_CACHE_SIZE") or DEFAULT_LIMIT
        return cls(root.absolute(), parse_size(size))

    def entries(self) -> list[Entry]:
        """Return every entry that can be read, the most recently used entry first."""
        entries = [self._read_entry(path) for path in self._list_paths()]
        return sorted(filter(None, entries), key=lambda entry: entry.used, reverse=True)

    def take(self, digest: str, folder: Path, ir: Path) -> list[Path] | None:
        """Copy an entry's files into a folder, and return the copies; None without such an entry.

        The entry's links are made anew, to the file ``ir``.

        Raises:
            DamagedError: A file is missing or has changed. The entry is deleted.
            OSError: A file cannot be written.
        """
        path = self._entries / digest
        entry = self._read_entry(path)
        if entry is None:
            if not path.exists():
                return None
            self._delete_entry(path)
            raise DamagedError(f"its {DESCRIPTION} cannot be read")
        copies = []
        for file in entry.about.files:
            target = folder / file.path
            copies.append(target)
            if not _copy_file(path / "files" / file.path, target, file):
                for copy in copies:
                    copy.unlink(missing_ok=True)
                self._delete_entry(path)
                raise DamagedError(f"'{file.path}' was changed after it was stored")
        for link in entry.about.links:
            (folder / link).parent.mkdir(parents=True, exist_ok=True)
            (folder / link).symlink_to(ir.resolve())
        with suppress(OSError):  # a deleted entry does not matter: the copies are complete
            os.utime(path / DESCRIPTION)  # the time of the last use
        return copies

    def keep(
        self,
        digest: str,
        key: Key,
        folder: Path,
        paths: Iterable[str],
        *,
        links: Iterable[str] = (),
        seconds: float,
        missed: Iterable[str],
    ) -> None:
        """Store a build's files, and delete old entries to keep the cache below the limit.

        Nothing is stored if the build's files are larger than the limit, or if another process has
        stored the same build in the meantime.

        Raises:
            OSError: A file cannot be written.
        """
        # For the owner only: who may write into the folder decides what is deployed.
        self._entries.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._scratch.mkdir(mode=0o700, exist_ok=True)
        self._delete_abandoned()
        unfinished = Path(mkdtemp(dir=self._scratch))
        try:
            files = tuple(
                _store_file(folder / path, unfinished / "files" / path, path) for path in paths
            )
            if sum(file.size for file in files) > self.limit:
                return
            about = Description(key, files, time.time(), seconds, tuple(missed), tuple(links))
            (unfinished / DESCRIPTION).write_bytes(msgspec.json.encode(about))
            with suppress(FileExistsError):  # another process has stored the same build
                _rename(unfinished, self._entries / digest)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        self._make_room(digest)

    def clear(self) -> int:
        """Delete all entries, and return the number of deleted entries."""
        return sum(self._delete_entry(path) for path in self._list_paths())

    def _list_paths(self) -> list[Path]:
        return list(self._entries.iterdir()) if self._entries.is_dir() else []

    def _read_entry(self, path: Path) -> Entry | None:
        try:
            text = (path / DESCRIPTION).read_bytes()
            used = (path / DESCRIPTION).stat().st_mtime
            about = msgspec.json.decode(text, type=Description)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None  # missing, being deleted by another process, or damaged
        # A path that leads out of the entry's folder was not written by this class.
        paths = [*(file.path for file in about.files), *about.links]
        return Entry(path.name, about, used) if all(map(_is_inside, paths)) else None

    def _delete_entry(self, path: Path) -> bool:
        """Delete an entry; return False if another process has already deleted the entry."""
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        discarded = Path(mkdtemp(dir=self._scratch))
        try:
            path.rename(discarded / path.name)  # atomic: no process sees half an entry
        except FileNotFoundError:
            return False
        finally:
            shutil.rmtree(discarded, ignore_errors=True)
        return True

    def _make_room(self, newest: str) -> None:
        """Delete the least recently used entries until the rest fits the limit; keep ``newest``."""
        total = 0
        entries = self.entries()
        # The newest entry first; the sort is stable, so the others stay in the order of last use.
        for entry in sorted(entries, key=lambda entry: entry.digest != newest):
            total += entry.size
            if total > self.limit:
                self._delete_entry(self._entries / entry.digest)

    def _delete_abandoned(self) -> None:
        """Delete the scratch folders of killed processes."""
        for folder in self._scratch.iterdir():
            with suppress(OSError):  # another process may delete the folder at the same time
                if time.time() - folder.stat().st_mtime > ABANDONED_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)


def parse_size(text: str) -> int:
    """Parse a size in the format of ``du -h``; return the number of bytes.

    Raises:
        UsageError: The text is not a size.

    Example:
        >>> parse_size("500M")
        524288000
    """
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)", text.strip().upper())
    if match is None:
        raise UsageError(
            f"invalid ENGINEBAY_CACHE_SIZE '{text}': "
            "expected a number, followed by K, M, G, T or nothing",
            hint=f"ENGINEBAY_CACHE_SIZE={DEFAULT_LIMIT}",
        )
    return int(match[1]) * _UNITS[match[2]]


def _is_inside(text: str) -> bool:
    path = PurePosixPath(text)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _copy_file(source: Path, target: Path, file: File) -> bool:
    """Copy a file; return True if the copy has the expected digest."""
    if not source.is_file():
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:  # another process deletes the entry at this moment
        return False
    return _sha256(target) == file.sha256


def _store_file(source: Path, target: Path, path: str) -> File:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return File(path, _sha256(target), target.stat().st_size)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _rename(source: Path, target: Path) -> None:
    """Rename a folder; raise FileExistsError if the target exists."""
    try:
        source.rename(target)
    except OSError as err:  # the class for an existing target differs between systems
        if target.exists():
            raise FileExistsError(str(target)) from err
        raise
