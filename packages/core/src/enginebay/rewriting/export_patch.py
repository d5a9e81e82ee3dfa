"""Rewriters around each attempt to export."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.rewriting import rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from enginebay.rewriting.report import RewriteReport


class ExportPatch:
    """Applies the rewriters for an engine around each attempt to export.

    Args:
        options: What :func:`rewrite` takes, but for the model and the exporter.

    Attributes:
        backend: The engine; empty for the rewriters that serve every engine.
        report: The rewriters of the last attempt, those that fired and the others; None before it.
        symbolics: The names of the symbolics that are active during an attempt.
    """

    report: RewriteReport | None = None
    symbolics: frozenset[str] = frozenset()

    def __init__(self, *, backend: str, **options: Any) -> None:
        self.backend = backend
        self._options = options

    @contextmanager
    def __call__(self, model: nn.Module, exporter: str) -> Iterator[nn.Module]:
        """Yield what is exported in the model's place."""
        rewriting = rewrite(model, exporter=exporter, backend=self.backend, **self._options)
        try:
            with rewriting:
                applied = rewriting.report.applied
                self.symbolics = frozenset(r.name for r in applied if r.kind == "symbolic")
                assert rewriting.model is not None
                yield rewriting.model
        finally:
            self.report = rewriting.report  # of a failed attempt too
