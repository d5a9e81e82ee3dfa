"""Restores a process's state after each sweep cell, so that a cell cannot affect later cells."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from sysconfig import get_paths
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType


_cell_numbers = count()


def is_first_cell() -> bool:
    """Return true on the first call in a process: no earlier model can have changed its state."""
    return next(_cell_numbers) == 0


@contextmanager
def restored_process(folders: Iterable[Path]) -> Iterator[None]:
    """After the ``with`` block, undo changes that a model made to this process.

    These are changes to ``sys.modules``, ``sys.path``, the working directory, environment
    variables, and torch's functions and settings.

    Args:
        folders: The folders of the model's code. Modules that the ``with`` block imports from these
            folders are removed from ``sys.modules``.
    """
    path, modules = list(sys.path), set(sys.modules)
    current, environment = Path.cwd(), dict(os.environ)
    # Two models may each import a layers.py from their folders: the second model would get the
    # module of the first.
    code_folders = {folder.resolve() for folder in folders}
    # Installed modules stay: torch takes seconds to import, and cannot be imported twice.
    code_folders -= {Path(installed).resolve() for installed in get_paths().values()}
    torch_state = _read_torch_names()
    try:
        yield
    finally:
        added = sys.modules.keys() - modules
        removed = {
            name
            for name in added
            if "." not in name and _module_folder(sys.modules[name]) in code_folders
        }
        for name in added:
            if name.partition(".")[0] in removed:
                del sys.modules[name]
        sys.path[:] = path
        os.chdir(current)
        if environment != os.environ:
            os.environ.clear()
            os.environ.update(environment)
        _restore_torch_names(torch_state)


def _module_folder(module: ModuleType) -> Path | None:
    """Return the folder that a top-level module was imported from; None if it has no file."""
    packages = list(getattr(module, "__path__", ()))
    file = packages[0] if packages else getattr(module, "__file__", None)
    return Path(file).resolve().parent if isinstance(file, str) else None


def _read_torch_names() -> list[tuple[object, dict[str, object]]]:
    """Return modules and classes of torch, with the attributes that a model's code may replace."""
    if not find_spec("torch"):
        return []
    import torch

    modules = (torch, torch.Tensor, torch.nn.functional, torch.nn.init, torch.nn.Module)
    layers = (getattr(torch.nn.modules, name) for name in torch.nn.modules.__all__)
    return [(owner, dict(vars(owner))) for owner in (*modules, *layers)]


def _restore_torch_names(names: Iterable[tuple[object, dict[str, object]]]) -> None:
    """Restore functions of torch that a model's code replaced, and torch's global settings."""
    # Otherwise a replaced function would also change the reference of the next model.
    torch = sys.modules.get("torch")
    if torch is None:
        return
    torch_folder = str(Path(torch.__file__ or "").parent)
    for owner, before in names:
        for name, value in dict(vars(owner)).items():
            if value is before.get(name) or not callable(value) or name.startswith("__"):
                continue
            code = getattr(value, "__code__", None)
            if code and code.co_filename.startswith(torch_folder):
                continue  # torch replaces some itself, as its compiler does with manual_seed
            if name in before:
                setattr(owner, name, before[name])
            elif code:  # a method that the class inherits
                delattr(owner, name)
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_grad_enabled(True)
