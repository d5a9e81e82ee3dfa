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

#: What exporters do by themselves: it calls torch functions by the thousand, none of the model's.
_BESIDES_THE_MODEL = (
    "torch.jit._trace._unique_state_dict",
    "torch.onnx._internal.torchscript_exporter.utils._optimize_graph",
    "torch._export.utils._fakify_params_buffers",
    "torch.export.exported_program.ExportedProgram.run_decompositions",
    "torch.onnx._internal.exporter._core._exported_program_to_onnx_program",
)


def replace(undo: ExitStack, replacements: Mapping[str, Callable[..., Any]]) -> None:
    """Replace functions until ``undo`` is left; each replacement gets the original first."""
    subjects = {patch_for(names.find(name)): name for name in replacements}
    layer = {}
    for patch, name in zip(undo.enter_context(applied(subjects)), subjects.values(), strict=True):
        bound = Bound(Rewriter("function", name, replacements[name]))
        bound.context = patch.hidden_by(bound)
        layer[patch.key] = bound
    put_in_force(undo, layer)


def leave_exporters_alone(undo: ExitStack) -> None:
    """Have no torch function intercepted that an exporter calls for itself.

    Rewriters are for the model. Besides, interception would cost some per cent of the export,
    which is all that another torch, without these functions, or one of them not yet loaded loses.
    """
    replace(undo, dict.fromkeys(filter(_is_loaded, _BESIDES_THE_MODEL), _without_interception))


def _is_loaded(name: str) -> bool:
    try:
        names.find(name)
    except names.NameNotFoundError:
        return False
    return True


def _without_interception(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    from enginebay.rewriting.modes import switched_off

    with switched_off():
        return original(*args, **kwargs)
