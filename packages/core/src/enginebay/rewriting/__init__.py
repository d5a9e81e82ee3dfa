"""Rewriters: other code for a function, a module, a symbolic or an operator of a captured graph.

Declared in a :class:`RewriterSet`, active inside :func:`rewrite`, gone without a trace afterwards::

    rewriters = RewriterSet(backend="ncnn")

    @rewriters.function("torch.Tensor.expand")
    def expand_without_batch(ctx, self, *sizes):
        return ctx.origin_func(self, *sizes)

    with rewrite(model, backend="ncnn", rewriters=[rewriters]) as rewriting:
        torch.onnx.export(rewriting.model, ...)
    print(rewriting.report)

The way of a rewriter, file by file: ``declaration`` (checked by ``checks``) makes a ``rewriter``;
``rewriting`` opens the context and lets ``selection`` choose; ``functions``, ``modules`` and
``symbolics`` look its name up (``names``) and activate it (``active_rewriters``). Torch's C
functions then reach it through ``torch_mode``, and Python functions through ``patches``;
``torch_functions`` lets the two work together. Symbolics reach the exporters through
``torchscript_symbolics`` and ``dynamo_symbolics``. Lowerings have a folder of their own.
``export_patch`` puts all of it around an export.
"""

from __future__ import annotations

from enginebay.rewriting.autograd_functions import functions_kept
from enginebay.rewriting.builtin import builtin_rewriters
from enginebay.rewriting.declaration import RewriterSet, check_sets
from enginebay.rewriting.export_patch import ExportPatch
from enginebay.rewriting.lowering import (
    LoweringContext,
    active_lowerings,
    capture,
    lower_program,
    operators_met,
)
from enginebay.rewriting.marking import DOMAIN, OPERATOR, Cut, mark, mark_nodes, marks
from enginebay.rewriting.names import NameNotFoundError
from enginebay.rewriting.patches import replace_functions
from enginebay.rewriting.placeholders import (
    PLACEHOLDER_DOMAIN,
    operator_name,
    placeholder_translations,
    untranslated,
)
from enginebay.rewriting.report import AppliedRewriter, RewriteReport, joined
from enginebay.rewriting.rewriter import CORE, Context, Rewriter, RewriterKind, Target
from enginebay.rewriting.rewriting import Rewriting, rewrite
from enginebay.rewriting.selection import list_rewriters
from enginebay.rewriting.torchscript_symbolics import has_symbolic

__all__ = [
    "CORE",
    "DOMAIN",
    "OPERATOR",
    "PLACEHOLDER_DOMAIN",
    "AppliedRewriter",
    "Context",
    "Cut",
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
    "builtin_rewriters",
    "capture",
    "check_sets",
    "functions_kept",
    "has_symbolic",
    "joined",
    "list_rewriters",
    "lower_program",
    "mark",
    "mark_nodes",
    "marks",
    "operator_name",
    "operators_met",
    "placeholder_translations",
    "replace_functions",
    "rewrite",
    "untranslated",
]
