"""``rewrite``: the context in which the rewriters for an engine apply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from enginebay import rewriting
from enginebay.backend import get_backend, plugin_rewriters
from enginebay.models import named_object
from enginebay.rewriting import ExportPatch, RewriterSet, check_sets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from enginebay.ir import IRKind
    from enginebay.rewriting import Rewriting


def rewrite(
    model: nn.Module | None = None,
    *,
    backend: str | None,
    ir: IRKind = "onnx",
    rewriters: Sequence[RewriterSet | str] = (),
    config: Mapping[str, Any] | None = None,
    **options: Any,
) -> Rewriting:
    """Return the context that every export runs in: inside it the rewriters for an engine apply.

    Args:
        model: Whose modules may be exchanged; without one, functions alone are rewritten.
        backend: The engine; None for the rewriters that serve every engine.
        ir: What the model is exported to.
        rewriters: Rewriters of your own: sets, or text that names some, as
            :class:`enginebay.ExportOptions` takes them.
        config: The deployment config that rewriters see as ``ctx.config``.
        **options: What :func:`enginebay.rewriting.rewrite` takes besides; anything else is for
            the rewriters, as ``ctx.options``.

    Returns:
        A context manager; inside it ``.model`` is what to export, and ``.report`` says what fired.

    Raises:
        RewriterError: ``rewriters`` is not a sequence of sets, or one is for an unknown IR.
        ModelSourceError: A Python file or module that one is named by cannot be imported.

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
    resolved = _resolved(backend=backend, ir=ir, rewriters=rewriters, **options)
    return rewriting.rewrite(model, config=config, **resolved)


def find_sets(rewriters: Sequence[RewriterSet | str]) -> list[RewriterSet]:
    """Return a caller's sets, with those that are named as text.

    Args:
        rewriters: Sets, or ``file.py:attr`` and ``module:attr`` for a set or a list of them.

    Raises:
        RewriterError: One is no set.
        ModelSourceError: A Python file or module cannot be imported.
    """
    if isinstance(rewriters, str) or not isinstance(rewriters, Sequence):
        check_sets(rewriters)
    found: list[RewriterSet] = []
    for one in rewriters:
        if not isinstance(one, str):
            found.append(one)
            continue
        with named_object(one) as named:
            found += named if isinstance(named, list | tuple) else [named]
    check_sets(found)
    return found


def export_patch(**options: Any) -> ExportPatch:
    """Return what applies the rewriters for an engine around each attempt to export.

    Args:
        **options: Those of :func:`rewrite`. The backend is asked for its rewriters here, once.
    """
    return ExportPatch(**_resolved(**options))


def _resolved(
    *,
    backend: str | None,
    ir: IRKind,
    rewriters: Sequence[RewriterSet | str],
    **options: Any,
) -> dict[str, Any]:
    """Return what :func:`enginebay.rewriting.rewrite` takes, which knows no backends."""
    own = find_sets(rewriters)
    if backend:
        engine = get_backend(backend)
        plugins = engine.rewriters(ir)
        if ir != "onnx":
            options["operators"] = engine.info.operators
        options["lacking"] = engine.info.lacking
    else:
        plugins = plugin_rewriters(ir)
    return {"backend": backend or "", "ir": ir, "rewriters": [*own, *plugins], **options}
