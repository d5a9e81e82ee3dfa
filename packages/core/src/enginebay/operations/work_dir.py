"""The default folder of a new artifact."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path


def default_work_dir(model: object, backend: str) -> Path:
    """Return the default folder: ``net-build-ncnn`` for ``folder/net.py:build`` on ncnn."""
    if not isinstance(model, str | PathLike):
        name = getattr(model, "__name__", type(model).__name__)
        return Path(f"{name.lower()}-{backend}")
    # The options of a model's name, such as "?pretrained", must not become a part of the path.
    text = fspath(model).partition("?")[0]
    left, _, attribute = text.rpartition(":")
    if not left:
        return Path(f"{Path(text).stem}-{backend}")
    # The file's name is included, since many files name their function "build".
    source = Path(left).name
    module = source.removesuffix(".py") if source.endswith(".py") else source.rpartition(".")[2]
    return Path(f"{module}-{Path(attribute).name.removesuffix('.py')}-{backend}")
