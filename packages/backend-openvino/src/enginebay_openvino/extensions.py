"""The user's own operators: extensions of OpenVINO in shared libraries or in Python."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.authors.sources import named_object
from enginebay.errors import ConversionError, ParamsError
from enginebay_openvino.reasons import format_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import openvino as ov

#: The folder of libraries and Python files inside an artifact.
FOLDER = "extensions"


def add_extensions(
    core: ov.Core, extensions: Iterable[str]
) -> list[Path | ov.Extension | type[ov.Op]]:
    """Load extensions and add them to an ``openvino.Core``.

    Args:
        core: The ``openvino.Core`` that reads or compiles a network.
        extensions: Paths of shared libraries, and Python objects as ``file.py:attr`` or
            ``package.module:attr``.

    Returns:
        The loaded extensions: paths of libraries, and Python objects.

    Raises:
        ParamsError: A path is not a file, or an object is not an extension of OpenVINO.
        ModelSourceError: A Python object cannot be imported.
        ConversionError: A library cannot be loaded.
    """
    loaded = [
        _load_object(text) if _is_python_object(text) else _check_library(text)
        for text in extensions
    ]
    for extension in loaded:
        try:
            core.add_extension(extension)
        except Exception as err:
            import openvino as ov

            raise ConversionError(
                f"extension '{extension}' cannot be loaded: {format_reason(err)}",
                hint="build the extension for OpenVINO "
                f"{ov.__version__.partition('-')[0]} and this platform",
            ) from err
    return loaded


def _check_library(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise ParamsError(f"extension '{text}' is not a file")
    if path.suffix == ".py":
        raise ParamsError(
            f"extension '{text}' is a Python file without the name of an object in it",
            hint=f"use {text}:NAME, where NAME is a subclass of openvino.Op or an extension",
        )
    return path


def _load_object(text: str) -> ov.Extension | type[ov.Op]:
    import openvino as ov

    with _no_bytecode(), named_object(text) as value:
        is_class = isinstance(value, type)
        if isinstance(value, ov.Extension) or (is_class and issubclass(value, ov.Op)):
            return value
    kind = value.__name__ if is_class else type(value).__name__
    raise ParamsError(
        f"extension '{text}': expected a class derived from openvino.Op, or a "
        f"ConversionExtension or OpExtension of openvino.frontend.onnx, found {kind}"
    )


@contextmanager
def _no_bytecode() -> Iterator[None]:
    # The file may be in an artifact, to which __pycache__ would add files.
    previous, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = previous


def copy_extensions(extensions: Iterable[str], work_dir: Path) -> list[Path]:
    """Copy the libraries and Python files into the artifact, and return the copies' paths.

    Raises:
        ParamsError: Two files have the same name.
    """
    sources: dict[Path, Path] = {}
    for file in filter(None, map(_extension_file, extensions)):
        copy = work_dir / FOLDER / file.name
        # Several extensions may be in one file.
        if not sources.setdefault(copy, file).samefile(file):
            raise ParamsError(f"two different extension files have the name '{file.name}'")
    for copy, file in sources.items():
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, copy)
    return list(sources)


def locate_extensions(extensions: Iterable[str], directory: Path) -> list[str]:
    """Return the extensions; replace each file's path by the path of its copy in the artifact."""
    folder = directory / FOLDER
    return [
        str(folder / text.rpartition("/")[2]) if _extension_file(text) else text
        for text in extensions
    ]


def _extension_file(text: str) -> Path | None:
    """Return the file of an extension; None for an object of an installed package."""
    path = text.rpartition(":")[0] if _is_python_object(text) else text
    is_module = _is_python_object(text) and not path.endswith(".py") and "/" not in path
    return None if is_module else Path(path)


def _is_python_object(text: str) -> bool:
    """Return True for ``file.py:attr`` and ``module:attr``; False for the path of a library.

    Example:
        >>> [_is_python_object(text) for text in ("ops.py:Twice", "libops.so", "a:b/libops.so")]
        [True, False, False]
    """
    _, colon, attribute = text.rpartition(":")
    return bool(colon) and "/" not in attribute
