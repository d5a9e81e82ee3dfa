"""Activation of rewriters during each attempt to export a model."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.rewriting import rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from enginebay.rewriting.report import RewriteReport


class ExportPatch:
    """Activates the rewriters of a backend during each attempt to export a model.

    Args:
        options: The keyword arguments of :func:`rewrite`, except ``backend`` and ``exporter``.

    Attributes:
        backend: The backend's name. If empty, only rewriters for all backends are activated.
        report: The report of the last attempt; None before the first attempt.
        symbolics: The names of the symbolic rewriters that were active in the last attempt.
    """

    report: RewriteReport | None = None
    symbolics: frozenset[str] = frozenset()

    def __init__(self, *, backend: str, **options: Any) -> None:
        self.backend = backend
        self._options = options

    @contextmanager
    def __call__(self, model: nn.Module, exporter: str) -> Iterator[nn.Module]:
        """Activate the rewriters inside the ``with`` statement, and yield the model to export."""
        rewriting = rewrite(model, exporter=exporter, backend=self.backend, **self._options)
        try:
            with rewriting:
                applied = rewriting.report.applied
                self.symbolics = frozenset(r.name for r in applied if r.kind == "symbolic")
                assert rewriting.model is not None
                yield rewriting.model
        finally:
            self.report = rewriting.report  # also after a failed attempt
