"""Resize with antialias by two matrix products: TensorRT rejects ``Resize`` with antialias.

Along each axis, every output pixel is a weighted sum of the input pixels around its centre, so
resizing an axis of fixed size is a product with a matrix. The weights are the same as in PyTorch
(``aten/src/ATen/native/cpu/UpSampleKernel.cpp``) and PIL: the filter is widened by the scale if the
image shrinks, and the weights of each output pixel sum to 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginebay.authors.arrays import NumpyArray

#: Half of each filter's width.
_SUPPORT = {"bilinear": 1.0, "bicubic": 2.0}


def resize_matrix(size: int, output_size: int, scale: float, mode: str) -> NumpyArray:
    """Return the matrix that resizes an axis.

    Args:
        size: The number of input elements.
        output_size: The number of output elements.
        scale: The number of input elements for each output element.
        mode: ``bilinear`` or ``bicubic``.

    Returns:
        An ``output_size × size`` matrix of float32.

    Example:
        >>> resize_matrix(4, 2, 2.0, "bilinear").astype(float).round(3).tolist()
        [[0.429, 0.429, 0.143, 0.0], [0.0, 0.143, 0.429, 0.429]]
    """
    import numpy as np

    widened = max(scale, 1.0)  # only an image that shrinks is smoothed
    support = _SUPPORT[mode] * widened
    matrix = np.zeros((output_size, size))
    for row in range(output_size):
        centre = scale * (row + 0.5)
        first = max(int(centre - support + 0.5), 0)
        last = min(int(centre + support + 0.5), size)
        distances = abs(np.arange(first, last) - centre + 0.5) / widened
        weights = np.array([_filter_weight(distance, mode) for distance in distances])
        matrix[row, first:last] = weights / weights.sum()
    return matrix.astype(np.float32)


def _filter_weight(distance: float, mode: str) -> float:
    if mode == "bilinear":
        return max(1.0 - distance, 0.0)
    a = -0.5  # Keys' cubic with PIL's coefficient; resizing without antialias uses -0.75
    if distance < 1:
        return ((a + 2) * distance - (a + 3)) * distance**2 + 1
    if distance < 2:
        return (((distance - 5) * distance + 8) * distance - 4) * a
    return 0.0


def output_scales(
    shape: tuple[int, int], size: Any, factor: Any, recompute: bool | None
) -> tuple[tuple[int, int], tuple[float, float]]:
    """Return the output's height and width, and the two scales for :func:`resize_matrix`.

    Args:
        shape: The input's height and width.
        size: The argument ``size`` of ``torch.nn.functional.interpolate``.
        factor: The argument ``scale_factor`` of the same function.
        recompute: The argument ``recompute_scale_factor`` of the same function.
    """
    if size is not None:
        height, width = (size, size) if isinstance(size, int) else size
    else:
        factors = (factor, factor) if isinstance(factor, int | float) else tuple(factor)
        height, width = (math.floor(n * f) for n, f in zip(shape, factors, strict=True))
        if not recompute:  # then torch computes with the factors, although the sizes are rounded
            return (height, width), (1 / factors[0], 1 / factors[1])
    return (height, width), (shape[0] / height, shape[1] / width)
