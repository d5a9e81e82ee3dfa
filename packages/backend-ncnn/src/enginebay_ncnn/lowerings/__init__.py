"""Lowerings: operators that neither pnnx nor ncnn has, in terms of those that ``dialect`` writes.

Only what is not as good among Enginebay's own lowerings for any engine, or torch's. They are for
ncnn in two ways: it has no NaN, so nothing looks for one, and a layer costs more than a product
with a constant matrix.
"""

from __future__ import annotations

from functools import reduce

from enginebay_ncnn.lowerings import arithmetic, contraction, images, ordering, recurrent

__all__ = ["lowerings"]

#: What the plugin's hook ``rewriters`` returns.
lowerings = reduce(
    lambda one, other: one.joined(other),
    (each.lowerings for each in (arithmetic, contraction, images, ordering, recurrent)),
)
