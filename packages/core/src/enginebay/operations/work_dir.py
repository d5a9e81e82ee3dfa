"""The folder of an artifact for which none is named."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import Any


def default_work_dir(model: Any, backend: str) -> Path:
    """Return ``net-build-ncnn`` for ``folder/net.py:build`` on ncnn: a folder in the current one.

    The file's name is in it, since many files call their function ``build``. A module is called by
    its class.
    """
    if not isinstance(model, str | PathLike):
        name = getattr(model, "__name__", type(model).__name__)
        return Path(f"{name.lower()}-{backend}")
    text = fspath(model).partition("?")[0]
    left, _, attribute = text.rpartition(":")
    if not left:
        return Path(f"{Path(text).stem}-{backend}")
    source = Path(left).name
    module = source.removesuffix(".py") if source.endswith(".py") else source.rpartition(".")[2]
    return Path(f"{module}-{Path(attribute).name.removesuffix('.py')}-{backend}")
