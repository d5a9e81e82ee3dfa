"""Lowerings of operators that pnnx or ncnn does not support.

The lowered graphs contain only operators that the package ``dialect`` can write for pnnx. For all
other operators, the lowerings of Enginebay's core or torch are good enough. The lowerings of this
package do not handle NaN, which ncnn does not support. Some lowerings use one product with a
constant matrix, which is faster than several layers.
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
