"""Rewriters replace functions, modules and ONNX symbolics, and in captured graphs also operators.

They are declared in a :class:`RewriterSet` and active inside :func:`enginebay.rewrite`, which
reverts every change at its end::

    rewriters = RewriterSet(backend="ncnn")

    @rewriters.function("torch.Tensor.expand")
    def expand_without_batch(ctx, self, *sizes):
        return ctx.origin_func(self, *sizes)

    with eb.rewrite(model, backend="ncnn", rewriters=[rewriters]) as rewriting:
        torch.onnx.export(rewriting.model, ...)
    print(rewriting.report)

From declaration to call, file by file: ``declaration`` creates a ``rewriter``, and
``declaration_checks`` validates it. ``rewriting`` is the context manager; ``selection`` selects the
rewriters for the target. ``functions``, ``modules`` and ``symbolics`` look up the objects to
replace (``dotted_names``) and activate the rewriters (``active_rewriters``). Calls of C functions
are intercepted by ``torch_mode``, calls of torch's Python functions by ``torch_functions``, and all
other calls by ``patches``. ``torchscript_symbolics`` and ``dynamo_symbolics`` register symbolics
in the exporters. The folder ``lowering`` has all code for lowerings. ``export_patch`` activates the
rewriters during an export.
"""

from __future__ import annotations

from enginebay.rewriting.autograd_functions import preserve_autograd_functions
from enginebay.rewriting.declaration import RewriterSet, check_sets
from enginebay.rewriting.dotted_names import NameNotFoundError
from enginebay.rewriting.export_patch import ExportPatch
from enginebay.rewriting.lowering import (
    LoweringContext,
    active_lowerings,
    capture,
    lower_program,
    observe_operators,
)
from enginebay.rewriting.patches import replace_functions
from enginebay.rewriting.placeholders import (
    find_untranslated,
    operator_name,
    placeholder_translations,
)
from enginebay.rewriting.report import AppliedRewriter, RewriteReport, join_reports
from enginebay.rewriting.rewriter import Context, Rewriter, RewriterKind, Target
from enginebay.rewriting.rewriting import Rewriting
from enginebay.rewriting.selection import list_rewriters
from enginebay.rewriting.torchscript_symbolics import has_symbolic

__all__ = [
    "AppliedRewriter",
    "Context",
    "ExportPatch",
    "LoweringContext",
    "NameNotFoundError",
    "RewriteReport",
    "Rewriter",
    "RewriterKind",
    "RewriterSet",
    "Rewriting",
    "Target",
    "active_lowerings",
    "capture",
    "check_sets",
    "find_untranslated",
    "has_symbolic",
    "join_reports",
    "list_rewriters",
    "lower_program",
    "observe_operators",
    "operator_name",
    "placeholder_translations",
    "preserve_autograd_functions",
    "replace_functions",
]
