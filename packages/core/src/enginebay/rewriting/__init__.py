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

from enginebay.rewriting.builtin import builtin_rewriters
from enginebay.rewriting.context import Context, Rewriting, rewrite
from enginebay.rewriting.declaration import IRKind, Rewriter, RewriterKind, RewriterSet
from enginebay.rewriting.report import AppliedRewriter, RewriteReport
from enginebay.rewriting.selection import Target, list_rewriters

__all__ = [
    "AppliedRewriter",
    "Context",
    "IRKind",
    "RewriteReport",
    "Rewriter",
    "RewriterKind",
    "RewriterSet",
    "Rewriting",
    "Target",
    "builtin_rewriters",
    "list_rewriters",
    "rewrite",
]
