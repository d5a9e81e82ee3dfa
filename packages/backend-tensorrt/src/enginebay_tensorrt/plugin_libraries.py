"""Load TensorRT's own plugins and the user's plugin libraries; copy the user's libraries."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.errors import ConversionError, UsageError
from enginebay_tensorrt.logger import join_errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from enginebay_tensorrt.library import Library

#: The folder of the libraries inside an artifact.
FOLDER = "plugins"


def load_plugins(library: Library, paths: Iterable[Path]) -> None:
    """Register TensorRT's own plugins and the plugins of shared libraries in this process.

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
            continue  # TensorRT rejects a plugin that is registered already, from any path
        with library.logger.collecting() as errors:
            if trt.get_plugin_registry().load_library(str(path.resolve())) is None:
                why = join_errors(errors or _loader_errors(path))
                raise ConversionError(f"plugin library '{path}' cannot be loaded: {why}")
        library.loaded.add(digest)


def _loader_errors(path: Path) -> list[str]:
    """Load a shared library; return a list of the system loader's error, empty if there is none."""
    # TensorRT logs this error only while a builder exists.
    try:
        ctypes.CDLL(str(path.resolve()))
    except OSError as err:
        return [str(err)]
    return []


def copy_plugins(libraries: Iterable[str], work_dir: Path) -> list[Path]:
    """Copy the plugin libraries into the artifact; return the paths of the copies.

    Raises:
        UsageError: Two libraries have the same file name.
    """
    copies = []
    for library in libraries:
        copy = work_dir / FOLDER / Path(library).name
        if copy in copies:
            raise UsageError(f"two plugin libraries have the same file name, '{copy.name}'")
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(library, copy)
        copies.append(copy)
    return copies


def locate_plugins(libraries: Iterable[str], directory: Path) -> list[Path]:
    """Return the paths of the plugin libraries in an artifact."""
    return [directory / FOLDER / Path(library).name for library in libraries]
