"""Lowerings: operators that pnnx and ncnn lack, in terms of those that ``dialect`` writes.

Only operators for which the portable lowerings of Enginebay and those of torch are not as good.
These are for ncnn in two ways: they do not handle NaN, which ncnn does not have, and they prefer a
product with a constant matrix, since a layer costs more.
"""

from __future__ import annotations

from functools import reduce

from enginebay_ncnn.lowerings import arithmetic, contraction, images, ordering, recurrent

__all__ = ["lowerings"]

#: The rewriters that the plugin returns from its hook.
lowerings = reduce(
    lambda left, right: left.joined(right),
    (module.lowerings for module in (arithmetic, contraction, images, ordering, recurrent)),
)
