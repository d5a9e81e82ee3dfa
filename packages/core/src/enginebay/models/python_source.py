"""Imports the user's Python file or module that holds a model, a data set or a metric."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.environment import install_hint, missing_package
from enginebay.errors import (
    EnginebayError,
    MissingDependencyError,
    ModelSourceError,
    first_line,
    nearest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType


@contextmanager
def named_object(source: str) -> Iterator[Any]:
    """The object that ``file.py:attr`` or ``package.module:attr`` names.

    Inside the block its file can import its neighbours.

    Raises:
        ModelSourceError: There is no such file, module or attribute, or its code raised.
        MissingDependencyError: It imports a package that is not installed.
    """
    left, _, attribute = source.rpartition(":")
    importer = import_file if left.endswith(".py") or "/" in left else import_name
    with importer(left) as module:
        yield _attribute(module, attribute, source)


@contextmanager
def import_file(name: str) -> Iterator[ModuleType]:
    """Import a Python file under a module name of its own.

    Inside the block its folder comes first on the import path, as when Python runs the file, so
    that it can import its neighbours; afterwards it stays there, last, for imports that happen in
    a forward.

    Raises:
        ModelSourceError: There is no such file, or it raised.
    """
    path = Path(name).absolute()
    if not path.is_file():
        raise missing_file(name)
    with _first_on_path(path.parent):
        yield _executed(path, name)


@contextmanager
def import_name(name: str) -> Iterator[ModuleType]:
    """Import a module by its dotted name; the current folder is searched too.

    Raises:
        ModelSourceError: There is no such module, or it raised.
    """
    with _first_on_path(Path.cwd()), one_error("importing", name):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as err:
            if err.name and (name == err.name or name.startswith(f"{err.name}.")):
                raise missing_module(name, err.name) from err
            raise
    with _first_on_path(Path.cwd()):
        yield module


def _attribute(module: Any, attribute: str, source: str) -> Any:
    found = module
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise missing_attribute(name, source, vars(module))
        found = getattr(found, name)
    return found


def _executed(path: Path, name: str) -> ModuleType:
    # The name is unique to the path: two files called model.py do not meet, nor does one of them
    # hide an installed module. It is an identifier, so that a rewriter can name what is in it.
    stem = re.sub(r"\W", "_", path.stem)
    unique = f"enginebay_source_{stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(unique, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Registered before it runs: dataclasses and pickle look their module up there.
    sys.modules[unique] = module
    try:
        with one_error("importing", name):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[unique]
        raise
    return module


@contextmanager
def one_error(action: str, name: str) -> Iterator[None]:
    """Turn whatever a user's code raises into one line.

    Raises:
        MissingDependencyError: It imports a package that is not installed.
        ModelSourceError: It raised anything else.
    """
    try:
        yield
    except (EnginebayError, KeyboardInterrupt):
        raise
    except BaseException as err:
        if package := missing_package(err):
            message = f"{action} '{name}' needs the package '{package}', which is not installed"
            raise MissingDependencyError(message, hint=install_hint(package)) from err
        message = f"{action} '{name}' raised {type(err).__name__}: {first_line(err)}"
        raise ModelSourceError(message) from err


def missing_file(name: str, folder: Path | None = None) -> ModelSourceError:
    """Build the error of a file that is not there.

    Args:
        name: The file, as it was named.
        folder: Where a relative name begins, if not in the current folder.
    """
    path = Path(folder or "", name)
    # Without their suffix, which makes any two of them alike.
    guess = nearest(path.stem, [file.stem for file in path.parent.glob(f"*{path.suffix}")])
    hint = f"did you mean '{Path(name).with_stem(guess)}'?" if guess else None
    return ModelSourceError(f"no file '{name}'", hint=hint)


def missing_module(name: str, missing: str, folder: Path | None = None) -> ModelSourceError:
    """Build the error of a module that is not there, or in a package that is not.

    Args:
        name: The module.
        missing: What of it is not there: itself, or a package that it is in.
        folder: Where it was searched first, if not in the current folder.
    """
    guess = nearest(name, [file.stem for file in (folder or Path.cwd()).glob("*.py")])
    hint = f"did you mean '{guess}'?" if guess else "run this where the module is, or install it"
    return ModelSourceError(f"no module '{missing}'", hint=hint)


def missing_attribute(name: str, source: str, known: Iterable[str]) -> ModelSourceError:
    """Build the error of a name that a file or module does not have.

    Args:
        name: The name.
        source: The text that leads to it.
        known: The names that are there.
    """
    if "(" in name:
        hint = "a name cannot call: write a function without arguments that returns the model"
        return ModelSourceError(f"'{source}' is a call", hint=hint)
    guess = nearest(name, [other for other in known if not other.startswith("_")])
    message = f"'{source}': there is no '{name}' in '{source.rpartition(':')[0]}'"
    return ModelSourceError(message, hint=f"did you mean '{guess}'?" if guess else None)


def public_names(file: Path) -> list[str]:
    """Return the classes and functions that a Python file defines, by its text alone."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    kinds = (ast.ClassDef, ast.FunctionDef)
    return [n.name for n in tree.body if isinstance(n, kinds) and not n.name.startswith("_")]


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    entry = str(folder)
    known = entry in sys.path
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
        if not known:
            sys.path.append(entry)
