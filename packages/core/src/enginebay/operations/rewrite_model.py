"""``rewrite``: a context in which the rewriters for an engine are applied."""

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
    config: Mapping[str, object] | None = None,
    **options: Any,
) -> Rewriting:
    """Return a context manager, inside which the rewriters for an engine are applied.

    Args:
        model: The model whose modules may be replaced; None to rewrite functions only.
        backend: The backend of the engine; None to apply only the rewriters for all backends.
        ir: The IR that the model is exported to.
        rewriters: Your rewriters: ``RewriterSet`` objects, or text that refers to them, as for
            :class:`enginebay.ExportOptions`.
        config: The deployment config that rewriters can read as ``ctx.config``.
        **options: Arguments of :func:`enginebay.rewriting.rewrite`, and your options, which
            rewriters can read as ``ctx.options``.

    Returns:
        A context manager. In its ``with`` block, ``.model`` is the model to export, and ``.report``
        counts the applied rewriters.

    Raises:
        RewriterError: ``rewriters`` is not a sequence of sets, or a set is for an unknown IR.
        ModelSourceError: The Python file or module of a set cannot be imported.

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
    resolved = _resolve_rewriters(backend=backend, ir=ir, rewriters=rewriters, **options)
    return rewriting.rewrite(model, config=config, **resolved)


def find_sets(rewriters: Sequence[RewriterSet | str]) -> list[RewriterSet]:
    """Return a caller's sets of rewriters; for a text, import the set that the text refers to.

    Args:
        rewriters: ``RewriterSet`` objects, or text that refers to a set or a list of sets:
            ``file.py:attr`` or ``module:attr``.

    Raises:
        RewriterError: An item is not a set.
        ModelSourceError: A Python file or module cannot be imported.
    """
    if isinstance(rewriters, str) or not isinstance(rewriters, Sequence):
        check_sets(rewriters)
    sets: list[RewriterSet] = []
    for item in rewriters:
        if not isinstance(item, str):
            sets.append(item)
            continue
        with named_object(item) as named:
            sets += named if isinstance(named, list | tuple) else [named]
    check_sets(sets)
    return sets


def export_patch(**options: Any) -> ExportPatch:
    """Return an exporter's argument ``patch``: it applies rewriters in each attempt to export.

    Args:
        **options: Arguments of :func:`rewrite`. The backend's hook for rewriters is called once.
    """
    return ExportPatch(**_resolve_rewriters(**options))


def _resolve_rewriters(
    *,
    backend: str | None,
    ir: IRKind,
    rewriters: Sequence[RewriterSet | str],
    **options: object,
) -> dict[str, Any]:
    caller_sets = find_sets(rewriters)
    if backend:
        engine = get_backend(backend)
        plugins = engine.rewriters(ir)
        # An ONNX exporter translates torch's operators; the other IRs contain them.
        if ir != "onnx":
            options["operators"] = engine.info.operators
        options["lacking"] = engine.info.lacking
    else:
        plugins = plugin_rewriters(ir)
    return {"backend": backend or "", "ir": ir, "rewriters": [*caller_sets, *plugins], **options}
