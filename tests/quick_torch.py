"""Caches for work that torch repeats at each export; only the processes of tests use them.

This work is most of the export of a small network: torch parses ONNX's translations of its
operators, visits all composite operators for each namespace of operators, and builds the
annotations of two functions for each operator that an export overrides.
"""

from __future__ import annotations

import copy
import sys
import threading
import typing
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_EXPORTER = "torch.onnx._internal.exporter._registration"
_UTILITIES = "torch._export.utils"


def quicken_torch(*, now: bool = False) -> None:
    """Add the caches to the modules of torch that this process has imported.

    Args:
        now: Also do at once, before an export, what each process does once: parse the translations
            for the default operator set, and add the composite operators.
    """
    for name, change in _CHANGES.items():
        module = sys.modules.get(name)
        if module is not None and not hasattr(module, "_quickened"):
            module._quickened = True  # type: ignore[attr-defined]
            change(module)
    if now and _EXPORTER in sys.modules:
        from torch.onnx import _constants

        sys.modules[_EXPORTER].ONNXRegistry.from_torchlib(_constants.ONNX_DEFAULT_OPSET)
    if now and _UTILITIES in sys.modules:
        sys.modules[_UTILITIES]._collect_all_valid_cia_ops()


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
    """Add composite operators to ``torch.ops`` only if the registered operators have changed.

    Torch asks for each of two dozen namespaces; here once for all of them.
    """
    import torch
    import torch.export.decomp_utils
    import torch.export.exported_program

    original = utilities._materialize_cpp_cia_ops
    collect = utilities._collect_all_valid_cia_ops
    known: list[str] = []
    collecting = threading.local()

    def materialize() -> None:
        if getattr(collecting, "now", False):
            return
        names = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        if names != known:
            known[:] = names
            original()

    def collect_once() -> set[Any]:
        materialize()
        collecting.now = True
        try:
            found: set[Any] = collect()
        finally:
            collecting.now = False
        return found

    utilities._materialize_cpp_cia_ops = materialize
    for module in (utilities, torch.export.decomp_utils, torch.export.exported_program):
        module._collect_all_valid_cia_ops = collect_once


def _override_composites_quickly(programs: Any) -> None:
    """Give each composite operator the kernels of an export in one step.

    Torch adds twenty kernels to each of five hundred operators one by one, which took longer than
    all else that happens to a small network. ``tests/test_quick_torch.py`` compares the kernels.
    """
    from torch._C import DispatchKey

    composite = DispatchKey.CompositeImplicitAutograd
    autograd = programs._AUTOGRAD_ALIAS_BACKEND_KEYS_TO_OVERRIDE
    backends = programs._BACKEND_KEYS_TO_OVERRIDE

    def run_original(mode: Any, _op: Any, *args: Any, original: Any, **kwargs: Any) -> Any:
        with mode:
            return original(*args, **kwargs)

    @contextmanager
    def override(replacements: Mapping[Any, Any]) -> Iterator[None]:
        saved = {op: op.py_kernels.copy() for op in replacements}
        for op, replacement in replacements.items():
            original = programs._get_decomp_for_cia(op)
            refusal = programs.autograd_not_implemented(op, deferred_error=True)
            own = {key: kernel for key, kernel in op.py_kernels.items() if key != composite}
            op.py_kernels.update(dict.fromkeys(autograd, refusal))
            op.py_kernels.update(dict.fromkeys(backends, original))
            op.py_kernels.update(own)
            op.py_kernels[composite] = replacement
            op._dispatch_cache.clear()
            if not programs._is_op_registered_to_fake_rule(op):
                programs.register_op_impl(op)(partial(run_original, original=original))
        try:
            yield
        finally:
            for op, kernels in saved.items():
                op.py_kernels.clear()
                op.py_kernels.update(kernels)
                op._dispatch_cache.clear()
                programs._deregister_op_impl(op)

    programs._override_composite_implicit_decomp = override


def _make_annotations_once(operators: Any) -> None:
    """Use ``typing.Callable``: unlike the class of ``collections.abc`` it has a cache."""
    operators.Callable = typing.Callable


#: By the module of torch to change.
_CHANGES = {
    _EXPORTER: _share_translations,
    _UTILITIES: _find_composites_once,
    "torch.export.exported_program": _override_composites_quickly,
    "torch._ops": _make_annotations_once,
}
