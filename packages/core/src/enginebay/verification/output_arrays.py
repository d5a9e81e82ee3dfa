"""Conversion of outputs to NumPy arrays, and the magnitude of their values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import torch

    from enginebay.tensors import Array, NumpyArray

    #: By axis and its length, a mask of the slices whose magnitude is far below the whole output's.
    SmallSlices: TypeAlias = dict[tuple[int, int], NumpyArray]

#: The magnitude of a larger output is measured on this many random elements.
_MAX_SAMPLED_ELEMENTS = 1 << 20

#: A value this many times the median is an outlier and does not count for the magnitude: a
#: replacement of infinity (-1e9, -65504 in masked scores), or one peak among thousands of small
#: values.
_OUTLIER_RATIO = 100

#: If more than this part of the values are such peaks, and are at most 1, they are none: of a
#: saturated sigmoid or tanh, more than half of the results may be nearly 0.
_MAX_PEAKS = 0.25

#: In 8 bits no value up to this is an outlier: compared with the best class of a softmax, all far
#: smaller values are noise there. Replacements of infinity are larger.
_LARGEST_8_BIT_VALUE = 1000.0

#: A slice with fewer values than this may be small by chance.
MIN_SLICE_VALUES = 3

#: A slice is small if its magnitude is this many times below the magnitude of the whole.
SMALL_SLICE_RATIO = 16


def as_numpy(array: Array) -> tuple[NumpyArray, str]:
    """Return an array or tensor as a NumPy array, and the name of the original dtype.

    A torch dtype that NumPy does not have (bfloat16, the 8-bit floats) is widened to float32
    without loss; the returned name is still ``bfloat16``.
    """
    import numpy as np

    # Not by isinstance(): comparing arrays must not import torch.
    if not hasattr(array, "detach"):
        values = np.asarray(array)
        return values, "string" if values.dtype.kind in "OSU" else values.dtype.name
    name = str(array.dtype).removeprefix("torch.")
    # NumPy has no lazily conjugated or negated arrays.
    tensor: torch.Tensor = array.detach().cpu().resolve_conj().resolve_neg()
    try:
        return tensor.numpy(), name
    except TypeError:  # a dtype that NumPy does not have
        import torch

        return tensor.to(torch.complex64 if tensor.is_complex() else torch.float32).numpy(), name


def widen_dtype(values: NumpyArray) -> NumpyArray:
    """Copy an array to float64 or complex128, in which differences are computed exactly."""
    import numpy as np

    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def compute_scale(
    values: NumpyArray, *, noise: float = 0.0, small_slices: SmallSlices | None = None
) -> NumpyArray:
    """Return the scale of each element's tolerance: the magnitude of the output or of a slice.

    The magnitude is the root mean square of the finite values without outliers: a single peak must
    not excuse errors elsewhere. If the slices along an axis differ by orders of magnitude (boxes
    and scores in one tensor), the elements of a small slice get the magnitude of that slice. The
    exception is a slice below the rounding ``noise`` of the output: such values remain after large
    values cancel, and get the magnitude of the whole output.

    Args:
        values: An output.
        noise: The rounding noise of the computation, relative to the magnitude of the output.
        small_slices: Masks of the slices that may count as small, from
            :func:`find_small_slices`. By default, the slices that are small in ``values``.

    Returns:
        An array that broadcasts to the shape of ``values``. All elements are 0 if all finite
            values are 0.
    """
    import numpy as np

    lengths = enumerate(values.shape)
    axes = [axis for axis, size in lengths if size * MIN_SLICE_VALUES <= values.size]
    magnitudes = _measure_magnitudes(values, noise, axes)
    scale = np.full((1,) * values.ndim, magnitudes.whole)
    for axis, slices in magnitudes.slices.items():
        small = magnitudes.small_slices(axis, noise)
        if small_slices is not None:
            small &= small_slices.get((axis, values.shape[axis]), False)
        if small.any():
            shape = [1] * values.ndim
            shape[axis] = -1
            scale = np.minimum(scale, np.where(small, slices, magnitudes.whole).reshape(shape))
    return scale


def find_small_slices(outputs: Iterable[NumpyArray], *, noise: float) -> SmallSlices:
    """Return masks of the slices that are small in every output.

    A slice consists of the elements with the same index on an axis. It is small if its magnitude is
    far below that of the whole output. The result maps (axis, length of the axis) to a mask with
    one element per slice. Each mask is computed from the outputs in which the axis has this length.
    """
    # In a single output a slice may be small by chance, because its values are alike: rows of the
    # same query, or a class whose logit is near 0 for each image of a batch.
    common: SmallSlices = {}
    for values in outputs:
        # Of a longer axis, too few elements of a slice are among the random ones.
        axes = [axis for axis, size in enumerate(values.shape) if size <= _MAX_SAMPLED_ELEMENTS]
        magnitudes = _measure_magnitudes(values, noise, axes)
        for axis in axes:
            key = axis, values.shape[axis]
            common[key] = common.get(key, True) & magnitudes.far_below_whole(axis)
    return common


class _Magnitudes(NamedTuple):
    """The magnitude of an output and, by axis, the magnitudes and value counts of all slices."""

    whole: float
    slices: dict[int, NumpyArray]
    counts: dict[int, NumpyArray]

    def far_below_whole(self, axis: int) -> NumpyArray:
        """Return a mask of slices far smaller than the output; all True for an output of zeros."""
        small: NumpyArray = self.slices[axis] <= self.whole / SMALL_SLICE_RATIO
        return small

    def small_slices(self, axis: int, noise: float) -> NumpyArray:
        """Return a mask of slices far smaller than the output, but above its rounding noise."""
        has_enough = self.counts[axis] >= MIN_SLICE_VALUES
        above_noise = self.slices[axis] > noise * self.whole
        small: NumpyArray = self.far_below_whole(axis) & has_enough & above_noise
        return small


def _measure_magnitudes(values: NumpyArray, noise: float, axes: Sequence[int]) -> _Magnitudes:
    """Measure the magnitude of an output, and of the slices along ``axes``."""
    import numpy as np

    flat = values.reshape(-1)
    rng = np.random.default_rng(0)
    indices = (
        rng.integers(0, flat.size, _MAX_SAMPLED_ELEMENTS)
        if flat.size > _MAX_SAMPLED_ELEMENTS
        else np.arange(flat.size)
    )
    sizes = np.abs(widen_dtype(flat[indices]))
    counted = np.isfinite(sizes)
    nonzero = sizes[counted & (sizes > 0)]
    if nonzero.size == 0:
        zeros = {axis: np.zeros(values.shape[axis]) for axis in axes}
        return _Magnitudes(0.0, zeros, zeros)
    median = np.partition(nonzero, nonzero.size // 2)[nonzero.size // 2]
    usual = sizes / _OUTLIER_RATIO <= median
    if noise >= 1:  # 8 bits
        usual |= sizes <= _LARGEST_8_BIT_VALUE
    saturated = counted & ~usual & (sizes <= 1)
    if np.count_nonzero(saturated) > _MAX_PEAKS * nonzero.size:
        usual |= saturated
    counted &= usual
    sizes, indices = sizes[counted], indices[counted]
    top = float(sizes.max())  # squares of values near the ends of float64 would overflow or vanish
    squares = (sizes / top) ** 2
    slices, counts = {}, {}
    for axis in axes:
        length, stride = values.shape[axis], math.prod(values.shape[axis + 1 :])
        coordinates = indices // stride % length
        counts[axis] = np.bincount(coordinates, minlength=length)
        sums = np.bincount(coordinates, squares, length)
        slices[axis] = top * np.sqrt(sums / np.maximum(counts[axis], 1))
    return _Magnitudes(top * float(np.sqrt(squares.mean())), slices, counts)
