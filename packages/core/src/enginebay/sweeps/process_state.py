"""The state of a process that runs one cell after the other: each finds it as the first one did."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from sysconfig import get_paths
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType


_cells = count()


def is_first_cell() -> bool:
    """True at the first call in a process: no cell before could have left anything."""
    return next(_cells) == 0


@contextmanager
def as_found(folders: Iterable[Path]) -> Iterator[None]:
    """Undo what a model's code did to the process: its imports, folder and environment.

    Two models may each import a ``layers.py`` that lies beside them: the second one would get the
    first one's module. What is installed stays: torch takes seconds to import, and cannot be
    imported twice.

    Args:
        folders: Where the code lies; modules that were found there are forgotten.
    """
    path, modules = list(sys.path), set(sys.modules)
    here, environment = Path.cwd(), dict(os.environ)
    own = {folder.resolve() for folder in folders}
    own -= {Path(installed).resolve() for installed in get_paths().values()}
    try:
        yield
    finally:
        new = sys.modules.keys() - modules
        found = {name for name in new if "." not in name and _home(sys.modules[name]) in own}
        for name in new:
            if name.partition(".")[0] in found:
                del sys.modules[name]
        sys.path[:] = path
        os.chdir(here)
        if environment != os.environ:
            os.environ.clear()
            os.environ.update(environment)
        _restore_torch()


def _home(module: ModuleType) -> Path | None:
    """The folder in which a module of the top level was found; None for one that has no file."""
    packages = list(getattr(module, "__path__", ()))
    file = packages[0] if packages else getattr(module, "__file__", None)
    return Path(file).resolve().parent if isinstance(file, str) else None


def _restore_torch() -> None:
    """Set back what a model's file may set for all code that uses torch, and changes numbers."""
    if torch := sys.modules.get("torch"):
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        torch.set_grad_enabled(True)
