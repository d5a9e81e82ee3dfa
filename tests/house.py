"""Measures of the code base: which internal names of core other packages use."""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from enginebay import authors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: The public modules of core. Each lists its public names in ``__all__``.
PUBLIC_MODULES = frozenset(
    {
        "enginebay",
        "enginebay.hooks",
        "enginebay.errors",
        "enginebay.environment",
        "enginebay.authors",
        *(f"enginebay.authors.{door.name}" for door in iter_modules(authors.__path__)),
        "enginebay.commands",
    }
)


def internal_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield each internal name of core that a module uses: its line and the whole name.

    A name is public only where a public module has it in its ``__all__``:
    ``enginebay.authors.files.read_onnx`` is public, ``enginebay.ir.read_onnx`` is not.
    """
    tree = ast.parse(source)
    aliases: dict[str, str] = {}  # the names of public modules in this module
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_core(node.module):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in PUBLIC_MODULES:
                    aliases[alias.asname or alias.name] = whole
                elif not _is_public(whole):
                    yield node.lineno, whole
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "enginebay":
                    aliases[alias.asname or alias.name] = alias.name
                elif _is_core(alias.name) and not _is_public(alias.name):
                    yield node.lineno, alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = aliases.get(node.value.id)
            if module and not _is_public(f"{module}.{node.attr}"):
                yield node.lineno, f"{module}.{node.attr}"


def internal_names_in(folders: Iterable[Path]) -> set[tuple[Path, str]]:
    """Return (file, internal name of core) for the Python files in these folders."""
    return {
        (path, name)
        for folder in folders
        for path in folder.rglob("*.py")
        for _, name in internal_names(path.read_text(encoding="utf-8"))
    }


def _is_core(module: str | None) -> bool:
    """Return True for core's modules; the other packages have different import names."""
    return module is not None and module.partition(".")[0] == "enginebay"


def _is_public(whole: str) -> bool:
    module, _, name = whole.rpartition(".")
    if module not in PUBLIC_MODULES or whole in PUBLIC_MODULES:
        return whole in PUBLIC_MODULES
    return name in _public_names(module) or (name.startswith("__") and name.endswith("__"))


@cache
def _public_names(module: str) -> frozenset[str]:
    return frozenset(import_module(module).__all__)
