"""``rewrite``: the context in which the rewriters for an engine apply."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.backend import get_backend, plugin_rewriters
from enginebay.rewriting import check_sets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import nn

    from enginebay.ir import IRKind
    from enginebay.params import BackendParams
    from enginebay.rewriting import RewriteReport, RewriterSet, Rewriting


def rewrite(
    model: nn.Module | None = None,
    *,
    backend: str | None,
    ir: IRKind = "onnx",
    rewriters: Sequence[RewriterSet] = (),
    config: Mapping[str, Any] | None = None,
    params: BackendParams | None = None,
    **options: Any,
) -> Rewriting:
    """Return the context that every export runs in: inside it the rewriters for an engine apply.

    Args:
        model: Whose modules may be exchanged; without one, functions alone are rewritten.
        backend: The engine; None for the rewriters that serve every engine.
        ir: What the model is exported to.
        rewriters: Rewriters of your own.
        config: The deployment config that rewriters see as ``ctx.config``.
        params: The engine's parameters, where its operators depend on them.
        **options: What :func:`enginebay.rewriting.rewrite` takes besides; anything else is for
            the rewriters, as ``ctx.options``.

    Returns:
        A context manager; inside it ``.model`` is what to export, and ``.report`` says what fired.

    Raises:
        RewriterError: ``rewriters`` is not a sequence of sets, or one is for an unknown IR.

    Example:
        >>> import enginebay as eb, torch
        >>> mine = eb.RewriterSet()
        >>> @mine.function("torch.relu")
        ... def clamped(ctx, x):
        ...     return x.clamp(min=0)
        >>> with rewrite(backend=None, rewriters=[mine]) as rewriting:
        ...     _ = torch.relu(torch.ones(2))
        >>> rewriting.report.fired
        {'torch.relu': 1}
    """
    from enginebay import rewriting

    check_sets(rewriters)
    if backend:
        engine = get_backend(backend)
        plugins = engine.rewriters(ir)
        # One that lowers when it converts gets here what is lowered for every engine.
        if ir != "onnx" and not engine.info.lowers_itself:
            options["operators"] = engine.operators(params)
        options["lacking"] = engine.info.lacking
    else:
        plugins = plugin_rewriters(ir)
    return rewriting.rewrite(
        model,
        backend=backend or "",
        ir=ir,
        rewriters=[*rewriters, *plugins],
        config=config,
        **options,
    )


class ExportPatch:
    """Applies the rewriters for an engine around each attempt to export.

    Attributes:
        backend: The engine; None for the rewriters that serve every engine.
        report: The rewriters of the last attempt, those that fired and the others; None before it.
        symbolics: The names of the symbolics that are active during an attempt.
    """

    report: RewriteReport | None = None
    symbolics: frozenset[str] = frozenset()

    def __init__(self, **options: Any) -> None:
        self.backend: str | None = options["backend"]
        self._options = options

    @contextmanager
    def __call__(self, model: nn.Module, exporter: str) -> Iterator[nn.Module]:
        """Yield what is exported in the model's place."""
        rewriting = rewrite(model, exporter=exporter, **self._options)
        try:
            with rewriting:
                applied = rewriting.report.applied
                self.symbolics = frozenset(r.name for r in applied if r.kind == "symbolic")
                assert rewriting.model is not None
                yield rewriting.model
        finally:
            self.report = rewriting.report  # of a failed attempt too
