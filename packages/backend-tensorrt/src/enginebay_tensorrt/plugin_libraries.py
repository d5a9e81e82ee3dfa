"""TensorRT's own layer plugins, and the shared libraries of plugins that users bring."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.errors import ConversionError, UsageError
from enginebay_tensorrt.logger import reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from enginebay_tensorrt.library import Library

#: Where libraries are kept inside an artifact.
FOLDER = "plugins"


def load_plugins(library: Library, paths: Iterable[Path]) -> None:
    """Register TensorRT's plugins and those of shared libraries in this process.

    Raises:
        ConversionError: A library is missing or does not load.
    """
    trt = library.trt
    trt.init_libnvinfer_plugins(library.logger, "")
    for path in paths:
        if not path.is_file():
            raise ConversionError(f"plugin library '{path}' is not a file")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest in library.loaded:
            continue  # TensorRT refuses a plugin that it knows already, wherever it lies
        with library.logger.collecting() as errors:
            if trt.get_plugin_registry().load_library(str(path.resolve())) is None:
                why = reason(errors or _loader_errors(path))
                raise ConversionError(f"plugin library '{path}' does not load: {why}")
        library.loaded.add(digest)


def _loader_errors(path: Path) -> list[str]:
    """Return what the system's loader says, which TensorRT logs only while there is a builder."""
    try:
        ctypes.CDLL(str(path.resolve()))
    except OSError as err:
        return [str(err)]
    return []


def copy_plugins(libraries: Iterable[str], work_dir: Path) -> list[Path]:
    """Copy the libraries into the artifact and return their places.

    Raises:
        UsageError: Two libraries have one name.
    """
    places = []
    for library in libraries:
        place = work_dir / FOLDER / Path(library).name
        if place in places:
            raise UsageError(f"two plugin libraries are called '{place.name}'")
        place.parent.mkdir(exist_ok=True)
        shutil.copyfile(library, place)
        places.append(place)
    return places


def carried_plugins(libraries: Iterable[str], directory: Path) -> list[Path]:
    """Return the places of the libraries in an artifact."""
    return [directory / FOLDER / Path(library).name for library in libraries]
