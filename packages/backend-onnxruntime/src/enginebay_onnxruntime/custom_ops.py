"""Finds custom-op libraries, by path or by package, and loads them into session options."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.errors import ConversionError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import onnxruntime

#: The folder of copied libraries inside an artifact.
FOLDER = "custom_ops"


def is_path(library: str) -> bool:
    """Return True for a shared library's path, False for the name of an installed package.

    Example:
        >>> is_path("libops.so"), is_path("build/libops.so.1"), is_path("onnxruntime_extensions")
        (True, True, False)
    """
    has_suffix = Path(library).suffix in (".so", ".dll", ".dylib")
    return has_suffix or not all(part.isidentifier() for part in library.split("."))


def find_libraries(libraries: Iterable[str]) -> list[Path]:
    """Return the path of each library on this machine.

    Args:
        libraries: Paths of shared libraries, or packages with a ``get_library_path()``.

    Raises:
        ConversionError: A path is not a file, or a package has no library.
        MissingDependencyError: A package is not installed.
    """
    return [
        _check_file(Path(name)) if is_path(name) else _find_in_package(name) for name in libraries
    ]


def locate_libraries(libraries: Iterable[str], directory: Path) -> list[Path]:
    """Return the path of each custom-op library of an artifact.

    The artifact contains copies of the libraries whose paths are in the parameters. Other libraries
    are in installed packages.

    Raises:
        ConversionError: The artifact does not contain a library, or a package has no library.
        MissingDependencyError: A package is not installed.
    """
    return [
        _check_file(directory / FOLDER / Path(name).name)
        if is_path(name)
        else _find_in_package(name)
        for name in libraries
    ]


def _check_file(path: Path) -> Path:
    if not path.is_file():
        raise ConversionError(f"custom-op library '{path}' is not a file")
    return path


def _find_in_package(name: str) -> Path:
    try:
        package: Any = importlib.import_module(name)
    except ImportError as err:
        raise MissingDependencyError(
            f"custom-op package '{name}' cannot be imported: {err}",
            hint=f"pip install {name.replace('_', '-')}",
        ) from err
    if not hasattr(package, "get_library_path"):
        raise ConversionError(
            f"package '{name}' has no custom-op library: expected a function get_library_path()",
            hint="pass the library's path",
        )
    return Path(package.get_library_path())


def register_libraries(paths: Iterable[Path], options: onnxruntime.SessionOptions) -> None:
    """Load custom-op libraries into session options.

    Raises:
        ConversionError: A library cannot be loaded, or does not export ``RegisterCustomOps``.
    """
    for path in paths:
        try:
            options.register_custom_ops_library(str(path))
        except Exception as err:
            raise ConversionError(
                f"custom-op library '{path.name}' cannot be loaded: {err}",
                hint="build the library for this version of ONNX Runtime and this platform",
            ) from err
