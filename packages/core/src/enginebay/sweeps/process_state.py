"""The state of a process that runs one cell after the other: each finds it as the first one did."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def as_found() -> Iterator[None]:
    """Undo what a model's code did to the process: its imports, folder and environment.

    Two models may each import a ``layers.py`` that lies beside them: the second one would get the
    first one's module. Modules from the folders that Python searches by itself stay: torch takes
    seconds to import, and cannot be imported twice.
    """
    path, modules = list(sys.path), set(sys.modules)
    folder, environment = Path.cwd(), dict(os.environ)
    try:
        yield
    finally:
        for name in sys.modules.keys() - modules:
            if not _is_installed(name, path):
                del sys.modules[name]
        sys.path[:] = path
        os.chdir(folder)
        if environment != os.environ:
            os.environ.clear()
            os.environ.update(environment)
        _restore_torch()


def _is_installed(name: str, path: list[str]) -> bool:
    """True if a module's file lies below a folder of the import path, or it has none."""
    file = getattr(sys.modules[name], "__file__", None)
    if not file:
        return True
    return any(entry and Path(file).is_relative_to(Path(entry).absolute()) for entry in path)


def _restore_torch() -> None:
    """Set back what a model's file may set for all torch code, and what changes numbers."""
    if torch := sys.modules.get("torch"):
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        torch.set_grad_enabled(True)
