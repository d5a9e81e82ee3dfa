"""Contexts for backends that are not installed: ``enginebay.rewrite`` would look for them."""

from __future__ import annotations

from typing import get_args

from enginebay.rewriting import RewriterKind, Rewriting, Target
from enginebay_rewriters.builtin import builtin_rewriters

KINDS = get_args(RewriterKind)


def rewrite(
    model=None,
    *,
    rewriters=(),
    builtin=True,
    kinds=KINDS,
    strict=False,
    backend,
    ir="onnx",
    config=None,
    opset=None,
    exporter=None,
    operators=None,
    lacking=(),
    **options,
):
    """Return the context of these sets and, with ``builtin``, of Enginebay's own."""
    target = Target(
        backend=backend,
        ir=ir,
        config=config or {},
        opset=opset,
        exporter=exporter,
        operators=operators,
        lacking=lacking,
        options=options,
    )
    own = [builtin_rewriters().from_distribution("enginebay")] if builtin else []
    sets = [*own, *rewriters]
    return Rewriting(model, target, sets, kinds=kinds, strict=strict)
