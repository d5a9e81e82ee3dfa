"""Extensions: shared libraries and Python objects that bring operators of the user's own."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.authors import named_object
from enginebay.errors import ConversionError, ParamsError
from enginebay_openvino.reasons import reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import openvino as ov

#: Where libraries and Python files are kept inside an artifact.
FOLDER = "extensions"


def add_extensions(core: ov.Core, extensions: Iterable[str]) -> list[Any]:
    """Add extensions to a core.

    Args:
        core: The core that reads or compiles a network.
        extensions: Paths of shared libraries, and Python objects as ``file.py:attr`` or
            ``package.module:attr``.

    Returns:
        The path or the object of each.

    Raises:
        ParamsError: One is no file, or no extension of OpenVINO's.
        ModelSourceError: A Python object cannot be imported.
        ConversionError: A library does not load.
    """
    found = [_object(text) if _is_object(text) else _library(text) for text in extensions]
    for each in found:
        try:
            core.add_extension(each)
        except Exception as err:
            import openvino as ov

            raise ConversionError(
                f"extension '{each}' does not load: {reason(err)}",
                hint=f"build it for OpenVINO {ov.__version__.partition('-')[0]} and this platform",
            ) from err
    return found


def _library(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise ParamsError(f"extension '{text}' is not a file")
    if path.suffix == ".py":
        raise ParamsError(
            f"extension '{text}' does not say which object of the file",
            hint=f"write {text}:NAME, where NAME is a class of openvino.Op or an extension",
        )
    return path


def _object(text: str) -> Any:
    import openvino as ov

    with _no_bytecode(), named_object(text) as found:
        is_class = isinstance(found, type)
        if isinstance(found, ov.Extension) or (is_class and issubclass(found, ov.Op)):
            return found
    kind = found.__name__ if is_class else type(found).__name__
    raise ParamsError(
        f"extension '{text}' is {kind}: wanted a class derived from openvino.Op, or a "
        "ConversionExtension or OpExtension of openvino.frontend.onnx"
    )


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """Keep Python from writing ``__pycache__`` beside a file, which may lie in an artifact."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def copy_extensions(extensions: Iterable[str], work_dir: Path) -> list[Path]:
    """Copy the libraries and Python files into the artifact, and return their places.

    Raises:
        ParamsError: Two files have one name.
    """
    sources: dict[Path, Path] = {}
    for file in filter(None, map(_file, extensions)):
        place = work_dir / FOLDER / file.name
        if not sources.setdefault(place, file).samefile(file):
            raise ParamsError(f"two extensions lie in files called '{file.name}'")
    for place, file in sources.items():
        place.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, place)
    return list(sources)


def carried_extensions(extensions: Iterable[str], directory: Path) -> list[str]:
    """Return the extensions of an artifact: those in files lie inside of it."""
    folder = directory / FOLDER
    return [str(folder / text.rpartition("/")[2]) if _file(text) else text for text in extensions]


def _file(text: str) -> Path | None:
    """Return the file that an extension lies in; None for an object of an installed package."""
    place = text.rpartition(":")[0] if _is_object(text) else text
    is_module = _is_object(text) and not place.endswith(".py") and "/" not in place
    return None if is_module else Path(place)


def _is_object(text: str) -> bool:
    """Return True for ``file.py:attr`` and ``module:attr``; False for the path of a library.

    Example:
        >>> _is_object("ops.py:Twice"), _is_object("libops.so"), _is_object("a:b/libops.so")
        (True, False, False)
    """
    _, colon, attribute = text.rpartition(":")
    return bool(colon) and "/" not in attribute
