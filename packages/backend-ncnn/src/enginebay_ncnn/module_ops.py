"""Search a TorchScript file for the classes that the parameter ``module_ops`` lists."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from enginebay.authors.files import read_torchscript
from enginebay.errors import ParamsError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

#: TorchScript adds this to the name of a class that it compiles again.
_MANGLED = re.compile(r"\.___torch_mangle_\d+")


def find_module_classes(file: Path, names: Sequence[str]) -> dict[str, str]:
    """Search a TorchScript file for the classes with the given names.

    Args:
        file: The TorchScript file.
        names: Names of classes: ``package.module.Class``, or ``file.py:Class`` for a class in a
            file that is not an importable module.

    Returns:
        A dict from a class's name in TorchScript to the element of ``names`` for this class.

    Raises:
        ParamsError: The file does not contain one of the classes.
    """
    if file.suffix == ".onnx":
        raise ParamsError("module_ops: an ONNX file has no modules", hint="--ir torchscript")
    module, _ = read_torchscript(file)
    modules: Iterable[Any] = module.modules()  # torch's stubs lack this method of TorchScript's
    types = (module._c._type().qualified_name() for module in modules)
    known = {_MANGLED.sub("", name).removeprefix("__torch__.") for name in types}
    classes: dict[str, str] = {}
    for text in names:
        matches = [name for name in known if _matches_name(name, text)]
        if not matches:
            others = sorted(name for name in known if not name.startswith(("torch.", "enginebay.")))
            raise ParamsError(
                f"module_ops: unknown module class '{text}'; "
                f"available: {', '.join(others) or 'only classes of torch'}",
                hint=did_you_mean(text, others),
            )
        classes.update(dict.fromkeys(matches, text))
    return classes


def _matches_name(name: str, text: str) -> bool:
    file, _, attribute = text.rpartition(":")
    if not file:
        return name == text
    module, _, last = name.rpartition(".")
    stem = re.sub(r"\W", "_", PurePath(file).stem)
    return last == attribute and re.search(rf"(^|[._]){stem}([._]|$)", module) is not None
