"""The rewriters that core ships, for every backend.

One file a function. Each exists because an exporter of today refuses the function or translates it
wrongly, and its test fails without it; ``docs/rewriters.md`` lists what was seen. None changes a
result: what it cannot do exactly goes to ``ctx.origin_func``.
"""

from __future__ import annotations

import functools

from enginebay.rewriting.declaration import RewriterSet
from enginebay.rewriting.rewriter import CORE


@functools.cache
def builtin_rewriters() -> RewriterSet:
    """The rewriters that core ships; :func:`~enginebay.rewriting.rewrite` uses them by itself."""
    from enginebay.rewriting.builtin import (
        adaptive_pooling,
        all_true,
        any_all,
        as_strided,
        atan2,
        attention,
        autograd_function,
        avg_pool,
        col2im,
        copy,
        cumsum,
        diff,
        fourier,
        grouped_mm,
        histc,
        linspace,
        matrix_transpose,
        permute,
        repeat_interleave,
        roll,
        squeeze,
        unbatched,
        unfold,
    )

    rewriters = RewriterSet(distribution=CORE)
    rooms = (
        *(adaptive_pooling, all_true, any_all, as_strided, atan2, attention, autograd_function),
        *(avg_pool, col2im, copy, cumsum, diff, fourier, grouped_mm, histc, linspace),
        *(matrix_transpose, permute, repeat_interleave, roll, squeeze, unbatched, unfold),
    )
    for room in rooms:
        room.declare(rewriters)
    return rewriters
