"""Arrays of any framework as NumPy's, and what there is to know about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch

    from enginebay.tensors import Array

_SAMPLE = 1 << 20
_HUGE = 1e4


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


def scale_of(values: np.ndarray[Any, Any]) -> float:
    """The magnitude of an array: the root mean square of its finite values, 0 for none.

    The mean square and not the maximum, so that one spike does not excuse an error elsewhere.
    Values of 1e4 and more that tower 1000 times over the median are stand-ins for infinity
    (-1e9, -65504 in masked scores) and left out, or they would excuse everything. Of more than
    2^20 values a random sample of as many is taken.
    """
    import numpy as np

    flat = values.reshape(-1)
    if flat.size > _SAMPLE:
        flat = flat[np.random.default_rng(0).integers(0, flat.size, _SAMPLE)]
    sizes = np.abs(widen(flat))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if sizes.size == 0:
        return 0.0
    with np.errstate(over="ignore"):  # the median of an even count is a mean of two
        kept = sizes[(sizes < _HUGE) | (sizes / 1000 <= np.median(sizes))]
    top = kept.max()  # squares of values near the ends of float64 would overflow or vanish
    zeros = flat.size - np.count_nonzero(flat)
    return float(top * np.sqrt(np.sum((kept / top) ** 2) / (kept.size + zeros)))
