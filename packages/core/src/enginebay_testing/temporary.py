"""Temporary installation of a backend for a ``with`` block."""

from __future__ import annotations

import importlib
import keyword
import os
import re
import sys
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import enginebay as eb
from enginebay.authors import forget_plugins

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = count()


@contextmanager
def temporary_backend(
    name: str,
    module: str,
    *,
    distribution: str | None = None,
    version: str = "0",
    group: str = "enginebay.backends",
) -> Iterator[Path]:
    """Make a backend discoverable as if it were installed, without pip.

    A folder with a real ``.dist-info`` is added to ``sys.path``, so discovery and loading run as
    for an installed plugin. Only the trial import of a new plugin in a child process is omitted.
    Child processes that Enginebay starts find the backend too. At the end of the ``with`` block,
    the folder is removed and all loaded plugins are unloaded.

    Args:
        name: The name of the backend and of its entry point.
        module: The name of a module that can be imported, or a module's source text.
        distribution: The name of the backend's distribution; by default ``temporary-NAME``.
        version: The distribution's version.
        group: The entry-point group: ``enginebay.plugins`` if the plugin applies to all backends.

    Yields:
        The folder on ``sys.path``.

    Example:
        >>> with temporary_backend("mine", "raise RuntimeError('only when loaded')"):
        ...     print([b.state for b in eb.list_backends() if b.name == "mine"])
        ['installed']
    """
    distribution = distribution or f"temporary-{name}"
    with TemporaryDirectory(prefix="enginebay-") as temporary:
        folder = Path(temporary).resolve()
        if not _is_module_name(module):
            module = _write_module(folder, name, module)
        _write_metadata(folder, distribution, version, f"[{group}]\n{name} = {module}\n")
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        forget_plugins(eb.BackendStatus(name, distribution, version, module))
        try:
            yield folder
        finally:
            # The block may have removed it.
            if str(folder) in sys.path:
                sys.path.remove(str(folder))
            _unload_modules(folder)
            importlib.invalidate_caches()
            forget_plugins()


def _is_module_name(text: str) -> bool:
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in text.split("."))


def _write_module(folder: Path, name: str, source: str) -> str:
    # Numbered: a test may install two backends with the same name at once.
    module = re.sub(r"\W", "_", f"temporary_{name}_{next(_numbers)}", flags=re.ASCII)
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    return module


def _write_metadata(folder: Path, distribution: str, version: str, entry_points: str) -> None:
    info = folder / f"{re.sub(r'[-_.]+', '_', distribution)}-{version}.dist-info"
    info.mkdir()
    header = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    (info / "METADATA").write_text(header, encoding="utf-8")
    (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    files = [path for path in folder.rglob("*") if path.is_file()]
    record = "".join(f"{path.relative_to(folder).as_posix()},,\n" for path in files)
    (info / "RECORD").write_text(f"{record}{info.name}/RECORD,,\n", encoding="utf-8")


def _unload_modules(folder: Path) -> None:
    inside = f"{folder}{os.sep}"
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get(
            "__file__"
        )  # via __dict__: getattr would load a lazy module
        if file and str(file).startswith(inside):
            del sys.modules[name]
