"""Activation of rewriters during each attempt to export a model."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import structs

from enginebay.rewriting.rewriting import Rewriting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import nn

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.report import RewriteReport
    from enginebay.rewriting.rewriter import Target


class ExportPatch:
    """Activates the rewriters of a backend during each attempt to export a model.

    Args:
        target: What the model is exported for; each attempt sets its exporter.
        sets: The sets to select from.

    Attributes:
        backend: The backend's name. If empty, only rewriters for all backends are activated.
        report: The report of the last attempt; None before the first attempt.
        symbolics: The names of the symbolic rewriters that were active in the last attempt.
    """

    report: RewriteReport | None = None
    symbolics: frozenset[str] = frozenset()

    def __init__(self, target: Target, sets: Sequence[RewriterSet]) -> None:
        self.backend = target.backend
        self._target = target
        self._sets = sets

    @contextmanager
    def __call__(self, model: nn.Module, exporter: str) -> Iterator[nn.Module]:
        """Activate the rewriters inside the ``with`` statement, and yield the model to export."""
        target = structs.replace(self._target, exporter=exporter)
        rewriting = Rewriting(model, target, self._sets)
        try:
            with rewriting:
                applied = rewriting.report.applied
                self.symbolics = frozenset(r.name for r in applied if r.kind == "symbolic")
                assert rewriting.model is not None
                yield rewriting.model
        finally:
            self.report = rewriting.report  # also after a failed attempt
