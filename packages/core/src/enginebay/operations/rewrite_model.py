"""The rewriters that apply to a target, and ``rewrite``, a context in which they are applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from enginebay.named_objects import named_object
from enginebay.operations.rewriter_sets import rewriters_for, target_of
from enginebay.rewriting import (
    ExportPatch,
    RewriterKind,
    RewriterSet,
    Rewriting,
    Target,
    check_sets,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from torch import nn

    from enginebay.params import IRKind


def rewrite(
    model: nn.Module | None = None,
    *,
    backend: str | None,
    ir: IRKind = "onnx",
    rewriters: Sequence[RewriterSet | str] = (),
    config: Mapping[str, object] | None = None,
    opset: int | None = None,
    exporter: str | None = None,
    kinds: Collection[RewriterKind] = get_args(RewriterKind),
    builtin: bool = True,
    strict: bool = False,
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
        opset: The requested ONNX opset.
        exporter: The exporter that will run, such as ``"torchscript"``; None if unknown.
        kinds: The kinds of rewriters to activate; by default all.
        builtin: False to exclude Enginebay's own rewriters.
        strict: True to raise an error for a rewriter that can have no effect: no loaded module has
            its name, or the exporter cannot use it. False to add a line to the report instead.
        **options: Your options, which rewriters can read as ``ctx.options``. Constructors of
            module rewriters receive those that they have as parameters.

    Returns:
        A context manager for this thread. In its ``with`` block, ``.model`` is the model to export,
        and ``.report`` counts the applied rewriters.

    Raises:
        RewriterError: ``rewriters`` is not a sequence of sets, or a set is for an unknown IR. Or
            when the context is entered, before any change: two rewriters are equally specific, a
            name refers to an object of a wrong type, or ``strict`` is True and a rewriter can have
            no effect.
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
    target = target_of(
        backend, ir, opset=opset, exporter=exporter, config=config or {}, options=options
    )
    sets = rewriters_for(target, find_sets(rewriters), builtin=builtin)
    return Rewriting(model, target, sets, kinds=kinds, strict=strict)


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


def export_patch(target: Target, callers: Sequence[RewriterSet] = ()) -> ExportPatch:
    """Return an exporter's argument ``patch``: it applies rewriters in each attempt to export.

    Args:
        target: What the model is exported for.
        callers: The caller's sets; the backend's hook for rewriters is called once.
    """
    return ExportPatch(target, rewriters_for(target, callers))
