"""The state of a process that runs one cell after the other: each finds it as the first one did."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from sysconfig import get_paths
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType


_cells = count()


def is_first_cell() -> bool:
    """True at the first call in a process: no cell before could have left anything."""
    return next(_cells) == 0


@contextmanager
def as_found(folders: Iterable[Path]) -> Iterator[None]:
    """Undo what a model's code did to the process: its imports, folder, environment, and torch.

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
    names = _torch_names()
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
        _restore_torch(names)


def _home(module: ModuleType) -> Path | None:
    """The folder in which a module of the top level was found; None for one that has no file."""
    packages = list(getattr(module, "__path__", ()))
    file = packages[0] if packages else getattr(module, "__file__", None)
    return Path(file).resolve().parent if isinstance(file, str) else None


def _torch_names() -> list[tuple[Any, dict[str, Any]]]:
    """The modules and classes with the functions that models call, and what each name is."""
    if not find_spec("torch"):
        return []
    import torch

    modules = (torch, torch.Tensor, torch.nn.functional, torch.nn.init, torch.nn.Module)
    layers = (getattr(torch.nn.modules, name) for name in torch.nn.modules.__all__)
    return [(owner, dict(vars(owner))) for owner in (*modules, *layers)]


def _restore_torch(names: Iterable[tuple[Any, dict[str, Any]]]) -> None:
    """Set back what a model's file may change for all code that uses torch.

    A function that it replaced would change the next model's reference, too. What torch replaces
    itself, as its compiler does with ``manual_seed``, stays.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    own = str(Path(torch.__file__ or "").parent)
    for owner, before in names:
        for name, found in dict(vars(owner)).items():
            if found is before.get(name) or not callable(found) or name.startswith("__"):
                continue
            code = getattr(found, "__code__", None)
            if code and code.co_filename.startswith(own):
                continue
            if name in before:
                setattr(owner, name, before[name])
            elif code:  # a method that the class inherits
                delattr(owner, name)
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_grad_enabled(True)
