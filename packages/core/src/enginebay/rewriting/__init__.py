"""Rewriters: other code for a function, a module or a symbolic, while a model is exported.

Declared in a :class:`RewriterSet`, applied by :func:`rewrite`, gone without a trace afterwards::

    rewriters = RewriterSet(backend="ncnn")

    @rewriters.function("torch.Tensor.expand")
    def expand_without_batch(ctx, self, *sizes):
        return ctx.origin_func(self, *sizes)

    with rewrite(model, backend="ncnn", rewriters=[rewriters]) as rewriting:
        torch.onnx.export(rewriting.model, ...)
    print(rewriting.report)
"""

from __future__ import annotations

from enginebay.rewriting.builtin import builtin_rewriters
from enginebay.rewriting.checks import check_sets
from enginebay.rewriting.context import Context, Rewriting, rewrite
from enginebay.rewriting.declaration import Rewriter, RewriterKind, RewriterSet
from enginebay.rewriting.marking import DOMAIN, OPERATOR, mark, mark_nodes, marks
from enginebay.rewriting.report import AppliedRewriter, RewriteReport
from enginebay.rewriting.selection import Target, list_rewriters

__all__ = [
    "DOMAIN",
    "OPERATOR",
    "AppliedRewriter",
    "Context",
    "RewriteReport",
    "Rewriter",
    "RewriterKind",
    "RewriterSet",
    "Rewriting",
    "Target",
    "builtin_rewriters",
    "check_sets",
    "list_rewriters",
    "mark",
    "mark_nodes",
    "marks",
    "rewrite",
]
