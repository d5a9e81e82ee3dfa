"""Enginebay's own rewriters, which apply to every backend.

Each rewriter replaces a function that a current exporter refuses or translates wrongly.
``docs/reference/rewriters.md`` lists these faults of the exporters with the versions of torch, and
tests reproduce them. No rewriter changes a result: it passes a call that it cannot compute exactly
to ``ctx.origin_func``, the function that it replaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enginebay import RewriterSet


def builtin_rewriters() -> RewriterSet:
    """Return Enginebay's own rewriters, which :func:`enginebay.rewrite` uses by default."""
    # Imported at the first export and not at start-up. Each file adds its rewriters to the set.
    from enginebay_rewriters.builtin import (  # noqa: F401  # see above
        activations,
        angles,
        arithmetic,
        attention,
        autograd_function,
        dimensions,
        embeddings,
        grouped_mm,
        images,
        pooling,
        rearrangement,
        recurrent,
        reductions,
        scattering,
        statistics,
    )
    from enginebay_rewriters.builtin.common import rewriters
    from enginebay_rewriters.portable import portable_lowerings

    return rewriters.joined(portable_lowerings())
