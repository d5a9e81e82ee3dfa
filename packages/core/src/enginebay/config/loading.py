"""Reading a config file with everything that it inherits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from enginebay.config import limits
from enginebay.config.limits import Budget
from enginebay.config.literals import literal
from enginebay.config.merging import join, merge, plain
from enginebay.config.places import Source, shown, wrong
from enginebay.config.python_form import BASE, PythonDocument
from enginebay.config.templates import Templates
from enginebay.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.config.places import Place, Table

SUFFIXES = (".py", ".toml", ".json", ".yaml", ".yml")


class Document(Protocol):
    """A parsed file, whatever its format.

    Attributes:
        helpers: Names that the file uses itself: variables, rather than sections.
    """

    helpers: set[str]

    def bases(self) -> tuple[Any, Place | None]:
        """The value of ``_base_`` and its place; None where there is none."""
        ...

    def contents(self, base: Table) -> Table:
        """What the file itself says."""
        ...


def load(path: str | Path, *, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Read a deploy config, without executing anything.

    Args:
        path: A ``.py``, ``.toml``, ``.json`` or ``.yaml`` file.
        environment: Where ``{{$NAME:default}}`` is looked up: pass ``os.environ`` if you trust the
            file with it. By default such a template is refused.

    Returns:
        The config in plain dicts, lists, tuples, texts, numbers, bools and None.

    Raises:
        ConfigError: The file or one that it inherits from cannot be read, uses what a config may
            not use, or causes too much work; the message starts with ``file:line:column``.
        MissingDependencyError: It is YAML, and no parser is installed.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     base, mine = Path(folder, "base.toml"), Path(folder, "mine.py")
        ...     _ = base.write_text('backend_config = {type = "ncnn"}')
        ...     _ = mine.write_text('_base_ = "base.toml"; backend_config = dict(threads=1 << 2)')
        ...     load(mine)
        {'backend_config': {'type': 'ncnn', 'threads': 4}}
    """
    config: dict[str, Any] = plain(read(path, environment=environment))
    return config


def read(path: str | Path, *, environment: Mapping[str, str] | None = None) -> Table:
    """Like :func:`load`, with the places of all keys."""
    return _Reading(environment).file(_absolute(path), None)


class _Reading:
    """One config on its way in: what it may cost, what was read already, what is being read."""

    def __init__(self, environment: Mapping[str, str] | None) -> None:
        self._environment = environment
        self._budget = Budget()
        self._done: dict[Path, Table] = {}
        self._chain: list[Path] = []

    def file(self, path: Path, place: Place | None) -> Table:
        if path in self._done:
            return self._done[path]
        if path in self._chain:
            circle = " → ".join(shown(p) for p in [*self._chain[self._chain.index(path) :], path])
            raise wrong(place, f"the config inherits from itself: {circle}")
        if len(self._chain) >= limits.INHERITANCE:
            raise wrong(place, f"more than {limits.INHERITANCE} files inherit from each other")
        self._chain.append(path)
        document = self._parsed(Source(path, self._text(path, place)))
        bases = [self.file(base, where) for base, where in self._bases(path, document)]
        base = join(bases)
        table = merge(document.contents(base), base)
        table.helpers = frozenset(document.helpers).union(*(table.helpers for table in bases))
        self._chain.pop()
        self._done[path] = table
        return table

    def _parsed(self, source: Source) -> Document:
        templates = Templates(source, self._environment, literal)
        match source.path.suffix:
            case ".py":
                return PythonDocument(source, templates, self._budget)
            case ".toml":
                from enginebay.config.toml_form import parse
            case ".json":
                from enginebay.config.json_form import parse
            case _:
                from enginebay.config.yaml_form import parse
        return parse(source, templates, self._budget)

    def _bases(self, path: Path, document: Document) -> list[tuple[Path, Place | None]]:
        given, place = document.bases()
        names = [] if given is None else [given] if isinstance(given, str) else given
        if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
            raise wrong(place, f"'{BASE}' is {given!r:.80}: wanted a path, or a list of paths")
        for name in names:
            if "::" in name or "\0" in name or not name:
                raise wrong(
                    place,
                    f"'{name}' in '{BASE}' is not a path",
                    hint="give the path of the file, relative to this one",
                )
        folder = str(path.parent)
        return [(_absolute(os.path.join(folder, name)), place) for name in names]  # noqa: PTH118  # half the time of Path's

    def _text(self, path: Path, place: Place | None) -> str:
        if path.suffix not in SUFFIXES:
            raise wrong(
                place, f"'{shown(path)}' is not a config: wanted a file with {', '.join(SUFFIXES)}"
            )
        try:
            if not path.is_file():  # a pipe or a device would never end
                what = "is not a file" if path.exists() else "does not exist"
                raise wrong(place, f"the config '{shown(path)}' {what}")
            with path.open("rb") as stream:
                content = stream.read(limits.FILE_BYTES + 1)
        except OSError as err:
            raise wrong(place, f"'{shown(path)}' cannot be read: {err.strerror}") from err
        if len(content) > limits.FILE_BYTES:
            raise wrong(
                place, f"'{shown(path)}' holds more than {limits.FILE_BYTES} bytes: not a config"
            )
        self._budget.file(len(content), place)
        return _decoded(path, content)


def _absolute(path: str | Path) -> Path:
    # Not resolve(): a link's file inherits from what lies beside the link, as elsewhere.
    return Path(os.path.abspath(path))  # noqa: PTH100


def _decoded(path: Path, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise ConfigError(f"{shown(path)}: byte {err.start} is not UTF-8") from err
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
