"""Arrays of any framework as NumPy's, and what there is to know about them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    import torch

    from enginebay.tensors import Array

    #: By axis, which slices along it are computed apart from the others.
    Apart: TypeAlias = dict[int, np.ndarray[Any, Any]]

#: So many places, chosen at random, stand for an output that has more.
_SAMPLE = 1 << 20

#: A value this many times the median is an outlier and no part of an output's magnitude: a stand-in
#: for infinity (-1e9, -65504 in masked scores), or one spike among thousands of small values.
_OUTLIER = 100

#: In 8 bits no value up to this is an outlier: beside the best class of a softmax, all that is far
#: smaller is noise there. Stand-ins for infinity are larger.
_NO_OUTLIER = 1000.0

#: A slice with fewer values than this may be small by chance.
_ENOUGH = 3

#: A slice is apart where its magnitude is this many times below that of the whole.
_APART = 16


def as_numpy(array: Array) -> tuple[np.ndarray[Any, Any], str]:
    """The array in NumPy, and the name of the dtype that it had.

    A torch dtype that NumPy lacks (bfloat16, the 8-bit floats) is widened to float32 without
    loss; the name stays. torch is imported for a tensor only.
    """
    import numpy as np

    if not hasattr(array, "detach"):
        values = np.asarray(array)
        return values, "string" if values.dtype.kind in "OSU" else values.dtype.name
    name = str(array.dtype).removeprefix("torch.")
    tensor: torch.Tensor = array.detach().cpu().resolve_conj().resolve_neg()
    try:
        return tensor.numpy(), name
    except TypeError:  # what torch says to a dtype that NumPy lacks
        import torch

        return tensor.to(torch.complex64 if tensor.is_complex() else torch.float32).numpy(), name


def widen(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy in float64 or complex128, where differences of any narrower dtype are exact."""
    import numpy as np

    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def is_float(array: np.ndarray[Any, Any]) -> bool:
    """True for floats and complex numbers, those of ml_dtypes among them: their kind is V."""
    return array.dtype.kind in "fcV"


def says_nothing(array: np.ndarray[Any, Any]) -> bool:
    """True if an array holds numbers, and all of them are NaN or infinite."""
    import numpy as np

    return array.size > 0 and is_float(array) and not np.isfinite(array).any()


def equal(left: Mapping[str, np.ndarray[Any, Any]], right: Mapping[str, Any]) -> bool:
    """True if all arrays are the same, bit for bit but for NaN."""
    import numpy as np

    return all(
        np.array_equal(array, right[name], equal_nan=array.dtype.kind in "fc")
        for name, array in left.items()
    )


def scale_of(
    values: np.ndarray[Any, Any], *, noise: float = 0.0, apart: Apart | None = None
) -> np.ndarray[Any, Any]:
    """The magnitude that each place's values come from, broadcast to the shape of the array.

    It is the root mean square of the finite values, without outliers, so that no spike excuses an
    error elsewhere. Where the slices along an axis differ by orders (boxes and scores in one
    tensor), a small slice has its own: it was computed apart from the large ones. A slice that is
    no more than rounding ``noise`` beside the whole is a difference of large values, and keeps
    the whole's.

    Args:
        values: An output.
        noise: The rounding noise of the computation, relative to the magnitude of the whole.
        apart: The slices that may have their own, as :func:`slices_apart` finds them; by default
            those of this output alone.

    Returns:
        An array with as many dimensions as ``values`` that broadcasts to it; 0 where there is no
        finite value but 0.
    """
    import numpy as np

    found = _magnitudes(values, noise)
    scale = np.full((1,) * values.ndim, found.whole)
    for axis, own in found.slices.items():
        small = found.apart(axis, noise)
        if apart is not None:
            small &= apart.get(axis, False)
        if small.any():
            along = [1] * values.ndim
            along[axis] = -1
            scale = np.minimum(scale, np.where(small, own, found.whole).reshape(along))
    return scale


def slices_apart(outputs: Iterable[np.ndarray[Any, Any]], *, noise: float) -> Apart:
    """The slices along each axis that are small in all of these outputs of one shape.

    In one output a slice may be small by chance, where its values are alike: rows of the same
    query, say.
    """
    apart: Apart = {}
    for number, values in enumerate(outputs):
        found = _magnitudes(values, noise)
        here = {axis: found.apart(axis, noise) for axis in found.slices}
        apart = here if not number else {axis: apart[axis] & here[axis] for axis in apart}
    return apart


class _Magnitudes(NamedTuple):
    """The magnitude of an output, and of its slices along each axis that has enough of them."""

    whole: float
    slices: dict[int, np.ndarray[Any, Any]]
    counts: dict[int, np.ndarray[Any, Any]]

    def apart(self, axis: int, noise: float) -> np.ndarray[Any, Any]:
        """Which slices are far smaller than the whole, and more than its noise."""
        own = self.slices[axis]
        small: np.ndarray[Any, Any] = (self.counts[axis] >= _ENOUGH) & (own < self.whole / _APART)
        return small & (own > noise * self.whole)


def _magnitudes(values: np.ndarray[Any, Any], noise: float) -> _Magnitudes:
    import numpy as np

    axes = [axis for axis, size in enumerate(values.shape) if size * _ENOUGH <= values.size]
    flat = values.reshape(-1)
    many = flat.size > _SAMPLE
    rng = np.random.default_rng(0)
    places = rng.integers(0, flat.size, _SAMPLE) if many else np.arange(flat.size)
    sizes = np.abs(widen(flat[places]))
    kept = np.isfinite(sizes)
    nonzero = sizes[kept & (sizes > 0)]
    if nonzero.size == 0:
        zeros = {axis: np.zeros(values.shape[axis]) for axis in axes}
        return _Magnitudes(0.0, zeros, zeros)
    kept &= sizes / _OUTLIER <= np.partition(nonzero, nonzero.size // 2)[nonzero.size // 2]
    if noise >= 1:
        kept |= sizes <= _NO_OUTLIER
    sizes, places = sizes[kept], places[kept]
    top = float(sizes.max())  # squares of values near the ends of float64 would overflow or vanish
    squares = (sizes / top) ** 2
    slices, counts = {}, {}
    for axis in axes:
        length, stride = values.shape[axis], math.prod(values.shape[axis + 1 :])
        place = places // stride % length
        counts[axis] = np.bincount(place, minlength=length)
        sums = np.bincount(place, squares, length)
        slices[axis] = top * np.sqrt(sums / np.maximum(counts[axis], 1))
    return _Magnitudes(top * float(np.sqrt(squares.mean())), slices, counts)
