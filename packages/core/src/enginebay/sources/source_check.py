"""Check a model's name without running the model's code or importing torch."""

from __future__ import annotations

import ast
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING

from enginebay.errors import (
    InputError,
    ModelSourceError,
    check_text,
    missing_file,
    nearest,
    one_line,
)
from enginebay.named_objects import missing_attribute, missing_module
from enginebay.plugins import contributed, known_packages
from enginebay.sources.named_weights import split_weights
from enginebay.sources.plugin_sources import names_codebase
from enginebay.sources.sources import is_file, is_weights, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec
    from pathlib import Path


def check_source(text: str, folder: Path, codebase: str = "", *, has_inputs: bool = True) -> None:
    """Check a model's name as far as possible without running the model's code.

    Args:
        text: A name that :func:`~enginebay.sources.plugin_sources.find_model` accepts. In
            ``SCHEME:NAME`` of a known plugin, ``NAME`` is not checked, since the plugin may be
            installed only on another machine.
        folder: The folder in which relative paths and modules are searched.
        codebase: The codebase in a config, to which names without scheme belong.
        has_inputs: False if the model must have example inputs, which a module's class has not.

    Raises:
        ModelSourceError: The text is not a model's name, or names a missing file, module or
            attribute.
        InputError: The model has no example inputs, and ``has_inputs`` is False.
    """
    check_text(text)
    text, requested = split_weights(text)
    if "checkpoint" in requested and not (folder / requested["checkpoint"]).exists():
        hint = missing_file(requested["checkpoint"], folder).hint or "pass --weights FILE"
        raise ModelSourceError(f"no weights file '{requested['checkpoint']}'", hint=hint)
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
    schemes = {*contributed("model_sources"), *known_packages("model_sources")}
    if text.partition(":")[0] in schemes:
        return
    if left.endswith(".py") or "/" in left:
        if not (folder / left).is_file():
            raise missing_file(left, folder)
        _check_attribute(folder / left, text, has_inputs=has_inputs)
    elif not _is_module(left, folder):
        error = missing_module(left, left, folder)
        if close := nearest(left, schemes):
            error.hint = f"did you mean '{close}:{attribute}'?"
        raise error


def no_example_error(model: str) -> InputError:
    """Return the error about a model without example inputs, of which nothing else is known."""
    hint = "pass --input NAME=1x3x224x224, or let the model's callable return (model, inputs)"
    return InputError(f"'{model}' has no example inputs", hint=hint)


def _is_module(name: str, folder: Path) -> bool:
    """Return True if a module can be found; its parent packages are not imported."""
    if name in sys.modules:  # such as os.path, which is not in a package
        return True
    top, *rest = name.split(".")
    # Part by part: find_spec() of a dotted name would import the parent packages.
    spec = PathFinder.find_spec(top, [str(folder)]) or _find_installed(top)
    for depth, _ in enumerate(rest, 2):
        if spec is None or spec.submodule_search_locations is None:
            return False
        inner = ".".join(name.split(".")[:depth])
        spec = PathFinder.find_spec(inner, list(spec.submodule_search_locations))
    return spec is not None


def _find_installed(top: str) -> ModuleSpec | None:
    try:
        return find_spec(top)
    except ValueError:  # a module without a spec, such as __main__
        return None


def _check_attribute(path: Path, text: str, *, has_inputs: bool) -> None:
    """Raise if a file does not define the attribute in a model's name; the file is not run."""
    try:
        tree = ast.parse(path.read_bytes(), path.name)
    except (SyntaxError, ValueError) as err:  # ValueError: the file contains a null byte
        file = text.rpartition(":")[0]
        raise ModelSourceError(f"importing '{file}' raised {one_line(err)}") from err
    attribute = text.rpartition(":")[2]
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == attribute]
    bases = [ast.unparse(base) for each in classes for base in each.bases]
    if not has_inputs and {"nn.Module", "torch.nn.Module"} & {*bases}:
        raise no_example_error(text)
    names = set(_bound_names(tree.body))
    if names & {"*", "__getattr__"} or any(
        isinstance(node, ast.Name) and node.id in ("globals", "exec") for node in ast.walk(tree)
    ):
        return  # its names are known only once it runs
    first = text.rpartition(":")[2].partition(".")[0]
    if first not in names:
        raise missing_attribute(first, text, names)


def _bound_names(body: list[ast.stmt]) -> Iterator[str]:
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
            for block in _inner_blocks(statement):
                yield from _bound_names(block)


def _inner_blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for inner in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield inner.body
