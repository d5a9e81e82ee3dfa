"""Caches for work that torch repeats at each export; only the processes of tests use them.

This work is most of the export of a small network: torch parses ONNX's translations of its
operators, visits all composite operators for each namespace of operators, and builds the
annotations of two functions for each operator that an export overrides.
"""

from __future__ import annotations

import copy
import sys
import typing
from functools import cache
from typing import Any

_EXPORTER = "torch.onnx._internal.exporter._registration"


def quicken_torch(*, now: bool = False) -> None:
    """Add the caches to the modules of torch that this process has imported.

    Args:
        now: Also parse the translations for the default operator set at once, before an export.
    """
    for name, change in _CHANGES.items():
        module = sys.modules.get(name)
        if module is not None and not hasattr(module, "_quickened"):
            module._quickened = True  # type: ignore[attr-defined]
            change(module)
    if now and _EXPORTER in sys.modules:
        from torch.onnx import _constants

        sys.modules[_EXPORTER].ONNXRegistry.from_torchlib(_constants.ONNX_DEFAULT_OPSET)


def _share_translations(exporter: Any) -> None:
    """Parse the translations once; each export gets a copy of the table to add its own to."""
    original = cache(exporter.ONNXRegistry.from_torchlib)
    newest = exporter.ONNXRegistry().opset_version

    def from_torchlib(_cls: type, opset_version: int = newest) -> Any:
        table = copy.copy(original(opset_version))
        table.functions = {name: list(each) for name, each in table.functions.items()}
        return table

    exporter.ONNXRegistry.from_torchlib = classmethod(from_torchlib)


def _find_composites_once(utilities: Any) -> None:
    """Add composite operators to ``torch.ops`` only if the registered operators have changed."""
    import torch

    original = utilities._materialize_cpp_cia_ops
    known: list[str] = []

    def materialize() -> None:
        names = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if names != known:
            known[:] = names
            original()

    utilities._materialize_cpp_cia_ops = materialize


def _make_annotations_once(operators: Any) -> None:
    """Use ``typing.Callable``: unlike the class of ``collections.abc`` it has a cache."""
    operators.Callable = typing.Callable


#: By the module of torch to change.
_CHANGES = {
    _EXPORTER: _share_translations,
    "torch._export.utils": _find_composites_once,
    "torch._ops": _make_annotations_once,
}
