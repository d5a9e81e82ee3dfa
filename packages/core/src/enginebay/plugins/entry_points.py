"""Entry points of Enginebay's groups, cached in one file for each Python environment.

Reading the metadata of 300 distributions takes several times as long as Python's own start. The
cache is valid as long as the modification times of the folders on ``sys.path`` and of the files
with entry points are unchanged. If the cache is damaged or cannot be written, the metadata is read
again.
"""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from importlib_metadata import IDistribution

BACKENDS = "enginebay.backends"
PLUGINS = "enginebay.plugins"
COMMANDS = "enginebay.commands"

#: The version of the cache file's format.
_VERSION = "1"
#: The minimum age in seconds of the latest change that is cached: an earlier cache could miss a
#: second change with the same modification time.
_SETTLED_SECONDS = 2.0


class EntryPoint(NamedTuple):
    """One line of a distribution's ``entry_points.txt``.

    Attributes:
        group: One of Enginebay's groups.
        name: The name of the entry point, as users type it.
        distribution: The name of the distribution that declares the entry point.
        version: The version of this distribution.
        module: The module to which the entry point refers.
        file: The path of the ``entry_points.txt``; empty if the metadata is not in a folder.
    """

    group: str
    name: str
    distribution: str
    version: str
    module: str
    file: str


def entry_points() -> list[EntryPoint]:
    """Return Enginebay's entry points of all distributions on ``sys.path``."""
    folders = _stamps(sys.path)
    with suppress(OSError, ValueError, TypeError):  # no cache yet, or a damaged one
        with open(_cache_file(), encoding="utf-8") as file:  # noqa: PTH123  # importing pathlib takes too long
            entries = _decode(file.read(), folders)
        if entries is not None:
            return entries
    entries = list(scan())
    newest = max((int(stamp) for _, stamp in folders), default=0)
    if time.time() - newest / 1e9 > _SETTLED_SECONDS:
        _write_cache(folders, entries)
    return entries


def scan(path: Sequence[str] | None = None) -> Iterator[EntryPoint]:
    """Yield Enginebay's entry points of the distributions on a path, by default ``sys.path``."""
    # Not importlib.metadata.entry_points(): it raises at the first malformed line of any installed
    # distribution, and its parser of the header takes 25 ms.
    from importlib_metadata import distributions

    seen: set[str] = set()
    for distribution in distributions(path=list(sys.path if path is None else path)):
        text = _read(distribution, "entry_points.txt")
        if "[enginebay." not in text:
            continue
        header = _read(distribution, "METADATA") or _read(distribution, "PKG-INFO")
        name, version = _field("Name", header), _field("Version", header)
        key = re.sub(r"[-_.]+", "-", name).lower()
        # The first on sys.path is imported. A distribution without a name is left by an uninstall.
        if not name or key in seen:
            continue
        seen.add(key)
        folder = getattr(distribution, "_path", None)
        file = "" if folder is None else str(folder / "entry_points.txt")
        for group, entry, value in _lines_of(text):
            module = re.sub(r"\s*\[.*\]$", "", value)  # without the extras
            yield EntryPoint(group, entry, name, version, module, file)


def _stamps(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Return each path with its modification time in nanoseconds; 0 for a missing path."""
    stamps = []
    for path in paths:
        stamp = 0
        with suppress(OSError, ValueError):
            stamp = os.stat(path or ".").st_mtime_ns  # noqa: PTH116  # importing pathlib takes too long
        stamps.append((path or os.getcwd(), str(stamp)))  # noqa: PTH109
    return stamps


def cache_folder() -> str:
    """Return Enginebay's cache folder, in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    Raises:
        OSError: The user has no home folder.
    """
    folder = os.environ.get("XDG_CACHE_HOME", "")
    base = folder if os.path.isabs(folder) else os.path.expanduser("~/.cache")  # noqa: PTH111, PTH117
    if not os.path.isabs(base):  # noqa: PTH117  # "~" stays where no home is known
        raise FileNotFoundError(base)
    return os.path.join(base, "enginebay")  # noqa: PTH118


def _cache_file() -> str:
    # All environments of a user share the folder, so each needs a name of its own.
    name = f"entry-points-{crc32(sys.prefix.encode('utf-8', 'replace')):08x}.txt"
    return os.path.join(cache_folder(), name)  # noqa: PTH118


def _write_cache(folders: Sequence[tuple[str, str]], entries: Sequence[EntryPoint]) -> None:
    """Write the cache; without a folder that can be written, the metadata is read each time."""
    # Imported here, since a valid cache is only read.
    from pathlib import Path

    from enginebay.errors import EnginebayError
    from enginebay.files import write_whole

    with suppress(OSError, ValueError, EnginebayError):
        write_whole(Path(_cache_file()), _encode(folders, entries).encode())


def _encode(folders: Sequence[tuple[str, str]], entries: Sequence[EntryPoint]) -> str:
    """Return the cache's text: the folders, the files and the entry points, one line for each."""
    files = _stamps(sorted({entry.file for entry in entries if entry.file}))
    rows = [(_VERSION, sys.version), *folders, (), *files, (), *entries]
    if any("\t" in text or "\n" in text for row in rows[1:] for text in row):
        raise ValueError(
            "cannot cache a path or an entry point that contains a tab or a line break"
        )
    return "\n".join("\t".join(row).replace("\n", " ") for row in rows)


def _decode(text: str, folders: Sequence[tuple[str, str]]) -> list[EntryPoint] | None:
    """Return the entry points in the cache's text; None if the text is out of date."""
    head, files, entries = text.split("\n\n")
    expected = [(_VERSION, sys.version.replace("\n", " ")), *folders]
    if head != "\n".join("\t".join(row) for row in expected):
        return None
    stamps = [tuple(line.split("\t")) for line in files.split("\n") if line]
    if stamps != _stamps([path for path, _ in stamps]):
        return None
    return [EntryPoint(*line.split("\t")) for line in entries.split("\n") if line]


def _read(distribution: IDistribution, file: str) -> str:
    try:
        return distribution.read_text(file) or ""
    except (OSError, UnicodeError):
        return ""


def _field(field: str, header: str) -> str:
    match = re.search(rf"^{field}:[ \t]*(.+)$", header, re.MULTILINE)
    return match[1].strip() if match else ""


def _lines_of(text: str) -> Iterator[tuple[str, str, str]]:
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]")
        elif group in (BACKENDS, PLUGINS, COMMANDS) and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield group, name.strip(), value.strip()


def module_file(module: str) -> str:
    """Return the path of a module's file without importing its package; empty without a file."""
    from importlib.util import find_spec

    package, *inside = module.split(".")
    try:
        spec = find_spec(package)
    except Exception:  # noqa: BLE001 - another package's import hook raised
        return ""
    stems = [
        "/".join((folder, *inside)) for folder in (spec and spec.submodule_search_locations) or ()
    ]
    files = [stem + end for stem in stems for end in (".py", "/__init__.py")]
    origin = [spec.origin] if spec and spec.origin else []
    return next((file for file in (*files, *origin) if os.path.isfile(file)), "")  # noqa: PTH113
