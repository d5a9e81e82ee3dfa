"""The classes of modules that pnnx keeps, as their callers name them and as TorchScript does."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from enginebay.authors import read_torchscript
from enginebay.errors import ParamsError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

#: What TorchScript puts into the name of a class that it compiles again.
_MANGLED = re.compile(r"\.___torch_mangle_\d+")


def class_names(file: Path, wanted: Sequence[str]) -> dict[str, str]:
    """Find the classes that a caller names in a file of TorchScript.

    Args:
        file: The file.
        wanted: The names: ``package.module.Class``, or ``file.py:Class`` for one of a file that is
            no module.

    Returns:
        The caller's name by the one in the file.

    Raises:
        ParamsError: The file has no such class.
    """
    if file.suffix == ".onnx":
        raise ParamsError("module_ops: an ONNX file has no modules", hint="--ir torchscript")
    module, _ = read_torchscript(file)
    modules: Iterable[Any] = module.modules()  # of TorchScript's, which torch's types do not know
    types = (each._c._type().qualified_name() for each in modules)
    found = {_MANGLED.sub("", name).removeprefix("__torch__.") for name in types}
    names: dict[str, str] = {}
    for text in wanted:
        matches = [name for name in found if _is_named(name, text)]
        if not matches:
            others = sorted(each for each in found if not each.startswith(("torch.", "enginebay.")))
            guess = nearest(text, others)
            raise ParamsError(
                f"module_ops: the model has no module of class '{text}'; "
                f"it has {', '.join(others) or 'none but those of torch'}",
                hint=f"did you mean '{guess}'?" if guess else None,
            )
        names.update(dict.fromkeys(matches, text))
    return names


def _is_named(name: str, text: str) -> bool:
    file, _, attribute = text.rpartition(":")
    if not file:
        return name == text
    module, _, last = name.rpartition(".")
    stem = re.sub(r"\W", "_", PurePath(file).stem)
    return last == attribute and re.search(rf"(^|[._]){stem}([._]|$)", module) is not None
