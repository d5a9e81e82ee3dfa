"""Check that a text leads to a model, without running any of its code or importing torch."""

from __future__ import annotations

import ast
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING

from enginebay.errors import ModelSourceError, check_text, nearest
from enginebay.models.named_weights import split_weights
from enginebay.models.plugin_sources import names_codebase
from enginebay.models.python_source import missing_attribute, missing_file, missing_module
from enginebay.models.sources import is_file, is_weights, unreadable
from enginebay.plugins import KNOWN_MODEL_SOURCES, contributed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec
    from pathlib import Path


def check_source(text: str, folder: Path, codebase: str = "") -> None:
    """Check as much of a model's name as can be without running any code of the model.

    Args:
        text: As :func:`~enginebay.models.plugin_sources.find_model` takes it. Names after the
            scheme of a plugin are not looked up, and neither is a plugin that is not installed
            here: another machine may have it.
        folder: Where relative paths and modules are searched.
        codebase: The codebase that a config names: a bare name is a model of it.

    Raises:
        ModelSourceError: The text leads nowhere.
    """
    check_text(text)
    text, asked = split_weights(text)
    if "checkpoint" in asked and not (folder / asked["checkpoint"]).exists():
        raise missing_file(asked["checkpoint"], folder)
    if is_file(text):
        if not (folder / text).exists():
            raise missing_file(text, folder)
        if is_weights(text):
            raise unreadable(text)
        return
    if codebase and names_codebase(text, codebase):
        return
    left, colon, attribute = text.rpartition(":")
    if not (left and colon and attribute):
        raise unreadable(text)
    schemes = {*contributed("model_sources"), *KNOWN_MODEL_SOURCES}
    if text.partition(":")[0] in schemes:
        return
    if left.endswith(".py") or "/" in left:
        if not (folder / left).is_file():
            raise missing_file(left, folder)
        _check_attribute(folder / left, text)
    elif not _is_module(left, folder):
        error = missing_module(left, left, folder)
        if close := nearest(left, schemes):
            error.hint = f"did you mean '{close}:{attribute}'?"
        raise error


def _is_module(name: str, folder: Path) -> bool:
    """Return True if a module can be found; its parent packages are not imported."""
    if name in sys.modules:  # such as os.path, which is not in a package
        return True
    top, *rest = name.split(".")
    found = PathFinder.find_spec(top, [str(folder)]) or _installed(top)
    for depth, _ in enumerate(rest, 2):
        if found is None or found.submodule_search_locations is None:
            return False
        inner = ".".join(name.split(".")[:depth])
        found = PathFinder.find_spec(inner, list(found.submodule_search_locations))
    return found is not None


def _installed(top: str) -> ModuleSpec | None:
    try:
        return find_spec(top)
    except ValueError:  # a module without a spec, such as __main__
        return None


def _check_attribute(path: Path, text: str) -> None:
    """Refuse a name that the file does not define, as far as its text shows.

    Raises:
        ModelSourceError: There is no such name, or the file is no Python.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as err:
        reason = err.msg if isinstance(err, SyntaxError) else str(err)
        raise ModelSourceError(f"'{text}' cannot be imported: {reason}") from err
    names = set(_names_in(tree.body))
    if names & {"*", "__getattr__"} or any(
        isinstance(node, ast.Name) and node.id in ("globals", "exec") for node in ast.walk(tree)
    ):
        return  # its names are known only once it runs
    first = text.rpartition(":")[2].partition(".")[0]
    if first not in names:
        raise missing_attribute(first, text, names)


def _names_in(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements of a module bind, at any depth outside functions."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            for alias in statement.names:
                yield alias.asname or alias.name.partition(".")[0]
        else:
            yield from (
                node.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            )
            for block in _blocks(statement):
                yield from _names_in(block)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of an ``if``, a loop, a ``with``, a ``try`` or a ``match``."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for inner in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield inner.body
