"""Import of the user's Python file or module, which defines a model, a data set or a metric."""

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
    did_you_mean,
    first_line,
    missing_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType


@contextmanager
def named_object(source: str) -> Iterator[Any]:
    """Yield the object that ``file.py:attr`` or ``package.module:attr`` names.

    Inside the block the file can import modules in its folder.

    Raises:
        ModelSourceError: The file, module or attribute does not exist, or its code raised.
        MissingDependencyError: The code imports a package that is not installed.
    """
    left, _, attribute = source.rpartition(":")
    importer = import_file if left.endswith(".py") or "/" in left else import_name
    with importer(left) as module:
        yield _resolve_attribute(module, attribute, source)


@contextmanager
def import_file(name: str) -> Iterator[ModuleType]:
    """Import a Python file under a unique module name.

    Inside the block its folder is first on the import path, as if Python ran the file, so that it
    can import modules in its folder. Afterwards the folder stays last on the path, for imports
    inside a forward.

    Raises:
        ModelSourceError: The file does not exist, or its code raised.
    """
    path = Path(name).absolute()
    if not path.is_file():
        raise missing_file(name)
    with _put_first_on_path(path.parent):
        yield _execute_file(path, name)


@contextmanager
def import_name(name: str) -> Iterator[ModuleType]:
    """Import a module by its dotted name; the current folder is searched first.

    Raises:
        ModelSourceError: The module does not exist, or its code raised.
    """
    with _put_first_on_path(Path.cwd()), unify_errors("importing", name):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as err:
            # Another missing module is one that the imported code itself imports.
            if err.name and (name == err.name or name.startswith(f"{err.name}.")):
                raise missing_module(name, err.name) from err
            raise
    # Not in the block above: errors of the caller's block are not errors of the import.
    with _put_first_on_path(Path.cwd()):
        yield module


def _resolve_attribute(module: ModuleType, attribute: str, source: str) -> object:
    value: object = module
    for name in attribute.split("."):
        if not hasattr(value, name):
            raise missing_attribute(name, source, vars(module))
        value = getattr(value, name)
    return value


def _execute_file(path: Path, name: str) -> ModuleType:
    # The name is unique to the path, so that two files called model.py do not collide, and neither
    # hides an installed module. It is an identifier, so that a rewriter can refer to the content.
    stem = re.sub(r"\W", "_", path.stem)
    unique = f"enginebay_source_{stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(unique, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Registered before it runs: dataclasses and pickle look their module up there.
    sys.modules[unique] = module
    try:
        with unify_errors("importing", name):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[unique]
        raise
    return module


@contextmanager
def unify_errors(action: str, name: str) -> Iterator[None]:
    """Convert any exception of the user's code except Ctrl-C into an exception of Enginebay.

    Raises:
        MissingDependencyError: The code imports a package that is not installed.
        ModelSourceError: The code raised any other exception.
    """
    try:
        yield
    except (EnginebayError, KeyboardInterrupt):
        raise
    except BaseException as err:  # sys.exit() in the user's code must not end Enginebay silently
        if package := missing_package(err):
            message = f"{action} '{name}' needs the package '{package}', which is not installed"
            raise MissingDependencyError(message, hint=install_hint(package)) from err
        message = f"{action} '{name}' raised {type(err).__name__}: {first_line(err)}"
        raise ModelSourceError(message) from err


def missing_module(name: str, missing: str, folder: Path | None = None) -> ModelSourceError:
    """Return the error for a module that does not exist.

    Args:
        name: The module.
        missing: The missing part: the module, or a package that should contain the module.
        folder: The folder that was searched first; by default the current folder.
    """
    guess = did_you_mean(name, [file.stem for file in (folder or Path.cwd()).glob("*.py")])
    hint = "run the command in the module's folder, or install the module"
    return ModelSourceError(f"no module '{missing}'", hint=guess or hint)


def missing_attribute(name: str, source: str, known: Iterable[str]) -> ModelSourceError:
    """Return the error for an attribute that a Python file or module does not define.

    Args:
        name: The missing attribute.
        source: The user's text: ``file.py:name``.
        known: The names that the file or module defines.
    """
    if "(" in name:
        hint = "write a function without arguments that returns the model, and pass its name"
        return ModelSourceError(f"'{source}' contains a call; expected only a name", hint=hint)
    guess = did_you_mean(name, [other for other in known if not other.startswith("_")])
    message = f"'{source}': there is no '{name}' in '{source.rpartition(':')[0]}'"
    return ModelSourceError(message, hint=guess)


def public_names(file: Path) -> list[str]:
    """Return the names of a Python file's public classes and functions, without running it."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):  # ValueError: the file contains a null byte
        return []
    kinds = (ast.ClassDef, ast.FunctionDef)
    return [n.name for n in tree.body if isinstance(n, kinds) and not n.name.startswith("_")]


@contextmanager
def _put_first_on_path(folder: Path) -> Iterator[None]:
    entry = str(folder)
    known = entry in sys.path
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
        if not known:
            sys.path.append(entry)
