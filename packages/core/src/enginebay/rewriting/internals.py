"""Functions of torch itself that a context replaces for its own ends, and does not report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting import names
from enginebay.rewriting.declaration import Rewriter
from enginebay.rewriting.layers import Bound, put_in_force
from enginebay.rewriting.python_functions import applied, patch_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack

#: Where the TorchScript exporter has its trace and turns it into ONNX.
_AFTER_TRACING = "torch.onnx._internal.torchscript_exporter.utils._optimize_graph"


def replace(undo: ExitStack, replacements: Mapping[str, Callable[..., Any]]) -> None:
    """Replace functions until ``undo`` is left; each replacement gets the original first."""
    subjects = {patch_for(names.find(name)): name for name in replacements}
    layer = {}
    for patch, name in zip(undo.enter_context(applied(subjects)), subjects.values(), strict=True):
        bound = Bound(Rewriter("function", name, replacements[name]))
        bound.context = bound.origin(patch.original)
        layer[patch.key] = bound
    put_in_force(undo, layer)


def leave_exporters_alone(undo: ExitStack) -> None:
    """Have no torch function intercepted that the exporter calls for itself.

    Rewriters are for the model. Besides, an exporter counts and compares thousands of sizes.
    """
    try:
        replace(undo, {_AFTER_TRACING: _without_interception})
    except names.NameNotFoundError:
        return  # another torch: interception costs a few per cent of the export, no more


def _without_interception(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    import torch

    with torch._C.DisableTorchFunction():
        return original(*args, **kwargs)
