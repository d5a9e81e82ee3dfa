"""Read a config file, and the files that it inherits from."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.config.limits import MAX_CHAIN, MAX_FILE_BYTES, Budget
from enginebay.config.locations import Location, error_at
from enginebay.config.merging import join_bases, merge_into, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.config.locations import LocatedDict
    from enginebay.config.python_form import PythonConfig
    from enginebay.config.value_forms import ValueConfig

SUFFIXES = (".py", ".toml", ".json", ".yaml", ".yml")


def read_config(
    path: str | PathLike[str], *, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Read a deploy config without executing it.

    Args:
        path: A ``.py``, ``.toml``, ``.json`` or ``.yaml`` file.
        environment: The environment variables for templates like ``{{$NAME:default}}`` in ``.py``
            files: pass ``os.environ`` to allow such templates. By default they are errors.

    Returns:
        The config as plain dicts, lists, tuples, texts, numbers, bools and None.

    Raises:
        ConfigError: The file or one of its bases cannot be read, contains an expression that
            configs cannot use, or exceeds a limit on sizes; the message starts with
            ``file.py:line:column`` or ``file.toml: section.key``.
        MissingDependencyError: A file is YAML, and no YAML parser is installed.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     base, mine = Path(folder, "base.toml"), Path(folder, "mine.py")
        ...     _ = base.write_text('backend_config = {type = "ncnn"}')
        ...     _ = mine.write_text('_base_ = "base.toml"; backend_config = dict(threads=1 << 2)')
        ...     read_config(mine)
        {'backend_config': {'type': 'ncnn', 'threads': 4}}
    """
    config: dict[str, Any] = plain(read_table(path, environment=environment))
    return config


def read_table(
    path: str | PathLike[str], *, environment: Mapping[str, str] | None = None
) -> LocatedDict:
    """Read a config like :func:`read_config`; return a dict with the location of every key."""
    return _Loader(environment).read_file(_absolute_path(path), None)


class _Loader:
    """Reads a config and the files that it inherits from (its bases); no file is read twice."""

    def __init__(self, environment: Mapping[str, str] | None) -> None:
        self._environment = environment
        self._budget = Budget()
        self._done: dict[Path, LocatedDict] = {}
        self._open: list[Path] = []  # the files that are being read, each the base of the next

    def read_file(self, path: Path, named_at: Location | None) -> LocatedDict:
        """Return the contents of a file, merged with the contents of its bases."""
        if path in self._done:
            return self._done[path]
        if path in self._open:
            files = [*self._open[self._open.index(path) :], path]
            circle = " → ".join(str(Location(str(file))) for file in files)
            raise error_at(named_at, f"the config inherits from itself: {circle}")
        if len(self._open) >= MAX_CHAIN:
            raise error_at(named_at, f"more than {MAX_CHAIN} files inherit from each other")
        self._open.append(path)
        config = self._parse_text(path, self._read_text(path, named_at))
        bases = [self.read_file(base, location) for base, location in _list_bases(path, config)]
        base = join_bases(bases)
        table = merge_into(config.read_contents(base), base)
        table.variables = config.variables.union(*(base.variables for base in bases))
        self._open.pop()
        self._done[path] = table
        return table

    def _parse_text(self, path: Path, text: str) -> PythonConfig | ValueConfig:
        if path.suffix == ".py":
            from enginebay.config.python_form import PythonConfig

            return PythonConfig(text, path, self._environment, self._budget)
        from enginebay.config.value_forms import ValueConfig

        return ValueConfig(text, path, self._budget)

    def _read_text(self, path: Path, named_at: Location | None) -> str:
        file = Location(str(path))
        if path.suffix not in SUFFIXES:
            suffixes = ", ".join(SUFFIXES)
            raise error_at(named_at, f"'{file}' is not a config: expected a file with {suffixes}")
        try:
            if not path.is_file():  # a pipe or a device would never end
                problem = "is not a file" if path.exists() else "does not exist"
                raise error_at(named_at, f"the config '{file}' {problem}")
            with path.open("rb") as stream:
                content = stream.read(MAX_FILE_BYTES + 1)
        except OSError as err:
            raise error_at(named_at, f"'{file}' cannot be read: {err.strerror}") from err
        if len(content) > MAX_FILE_BYTES:
            message = f"'{file}' is not a config: it has more than {MAX_FILE_BYTES} bytes"
            raise error_at(named_at, message)
        try:
            self._budget.spend("files")
        except ValueError as err:
            raise error_at(named_at, str(err)) from err
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as err:
            raise error_at(file, f"byte {err.start} is not UTF-8") from err
        # Any line end counts as one line, as for ast, whose line numbers PythonConfig looks up.
        return text.replace("\r\n", "\n").replace("\r", "\n")


def _list_bases(
    path: Path, config: PythonConfig | ValueConfig
) -> list[tuple[Path, Location | None]]:
    """Return the files that a config inherits from, each with the location of ``_base_``."""
    bases, location = config.read_bases()
    names = [] if bases is None else [bases] if isinstance(bases, str) else bases
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
        raise error_at(location, f"'_base_' is {bases!r:.80}: expected a path or a list of paths")
    for name in names:
        if "::" in name or "\0" in name or not name:
            raise error_at(
                location,
                f"'{name}' in '_base_' is not a path",
                hint="write the base's path, relative to the folder of this config",
            )
    folder = str(path.parent)
    return [(_absolute_path(os.path.join(folder, name)), location) for name in names]  # noqa: PTH118  # half the time of Path's


def _absolute_path(path: str | PathLike[str]) -> Path:
    # Not resolve(): '_base_' in a linked file is relative to the folder of the link.
    return Path(os.path.abspath(path))  # noqa: PTH100
