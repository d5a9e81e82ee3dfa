"""Lower the operators that pnnx and ncnn lack. The results contain only operators of ``dialect``.

All other operators have lowerings in Enginebay's core or in torch that are good enough for ncnn.
The lowerings here do not handle NaN, which ncnn does not have. They use one product with
a constant matrix instead of several layers, which would take longer.
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
