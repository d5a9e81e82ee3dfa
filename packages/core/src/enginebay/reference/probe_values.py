"""Random arrays that resemble the example of an input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from enginebay.tensors import is_float, resize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from enginebay.tensors import NumpyArray

#: An example with a smaller standard deviation (zeros, a single number) tells nothing about the
#: usual values of the input. Its probes have a deviation of 1, like the inputs of most networks.
_MIN_SPREAD = 1e-2

#: The standard deviation of large values: exp overflows in float32 from 89 on, and 1e3 squared is
#: still exact.
_LARGE_SPREAD = 1e3

#: float32 represents every integer up to here, but beyond only even integers.
_MAX_EXACT_INTEGER = 2**24


class ValueGenerator:
    """Draws arrays that resemble the examples of a model's inputs.

    Args:
        below: Input name → exclusive upper bound of the values, if known; for integer inputs only.
        seed: The random seed.
    """

    def __init__(self, below: Mapping[str, int], seed: int) -> None:
        self._below = below
        self.random = np.random.default_rng(seed)

    def redraw(
        self, name: str, array: NumpyArray, shape: tuple[int, ...] | None = None
    ) -> NumpyArray:
        """Return random values that resemble the array's.

        Floats have the array's mean and standard deviation, integers the array's range. Values of
        other dtypes, and of a mask, are shuffled.
        """
        shape = array.shape if shape is None else shape
        if array.size == 0:
            return resize(array, shape)
        if not is_float(array):
            if array.dtype.kind not in "iu" or (_is_mask(array) and name not in self._below):
                return self.permute(resize(array, shape))
            least, greatest = self._integer_range(name, array)
            return self.random.integers(least, greatest, shape, array.dtype, endpoint=True)
        mean, spread, low, high = _compute_statistics(array)
        if spread < _MIN_SPREAD:
            return self._draw_normal(array, shape, mean, 1.0)
        drawn = self._draw_normal(array, shape, mean, spread)
        return drawn if array.dtype.kind == "c" else np.clip(drawn, low, high).astype(array.dtype)

    def _integer_range(self, name: str, array: NumpyArray) -> tuple[int, int]:
        least, greatest = int(array.min()), int(array.max())
        # A single index says nothing about the others: any row of the table may be used.
        if least == greatest and name in self._below:
            return 0, self._below[name] - 1
        return least, greatest

    def permute(self, array: NumpyArray) -> NumpyArray:
        """Return the array's values in random order."""
        return self.random.permutation(array.reshape(-1)).reshape(array.shape)

    def draw_wide(self, name: str, array: NumpyArray) -> NumpyArray:
        """Return floats with ten times the array's standard deviation.

        For other dtypes, return the values of :meth:`redraw`.
        """
        if not is_float(array) or array.size == 0:
            return self.redraw(name, array)
        mean, spread, *_ = _compute_statistics(array)
        return self._draw_normal(array, array.shape, mean, 10 * max(spread, _MIN_SPREAD))

    def can_invert(self, name: str, array: NumpyArray) -> bool:
        """Return True for integers that vary, except a mask (0 and 1) and indices into a tensor."""
        if array.dtype.kind not in "iu" or not array.size or name in self._below:
            return False
        # Lengths, positions and time steps mostly come as a single number.
        return not is_constant(array) and not _is_mask(array)

    def invert_integers(self, name: str, array: NumpyArray) -> NumpyArray:
        """Return the values of :meth:`redraw`, with inverted bits if :meth:`can_invert` is True."""
        drawn = self.redraw(name, array)
        return ~drawn if self.can_invert(name, array) else drawn

    def draw_large_floats(self, name: str, array: NumpyArray) -> NumpyArray:
        """Return floats whose exponential overflows; for other dtypes, call :meth:`redraw`."""
        if not is_float(array):
            return self.redraw(name, array)
        return self._draw_normal(array, array.shape, 0.0, _LARGE_SPREAD)

    def draw_large_integers(self, name: str, array: NumpyArray) -> NumpyArray:
        """Return integers beyond float32's precision; for other dtypes, call :meth:`redraw`."""
        if array.dtype.kind not in "iu" or array.dtype.itemsize < 4:
            return self.redraw(name, array)
        return np.asarray(
            self.random.integers(_MAX_EXACT_INTEGER, 2**31 - 1, array.shape, array.dtype)
        )

    def vary_constant(
        self, name: str, array: NumpyArray, *, is_only_input: bool
    ) -> Iterator[tuple[str, NumpyArray]]:
        """Yield (suffix for the label, new values) for an input whose elements are all equal.

        An input of zeros or ones counts as a mask, unless it indexes a tensor, or has floats and
        is the model's only input. Nothing is yielded for other floats, since :meth:`redraw` varies
        them.
        """
        value = array.flat[0]
        is_only_float = is_only_input and is_float(array)
        if value in (0, 1) and name not in self._below and not is_only_float:
            # A mask gets holes. Padding is at the right end of a row, in decoders at the left end.
            holes = _add_holes(array)
            yield "", holes
            if array.ndim and array.shape[-1] > 1:
                yield ", mirrored", holes[..., ::-1].copy()
            return
        if is_float(array):
            return
        if name in self._below:
            low, high = 0, max(self._below[name], 2)
        else:
            # Lengths, time steps and positions mostly have an upper limit, so smaller values are
            # drawn; but not 0, since many models reject a length of 0.
            low, high = (1, int(value)) if value > 1 else (int(value) + 1, 1)
        drawn = np.asarray(self.random.integers(low, high, array.shape, array.dtype))
        # The least value is always drawn: engines have assumed half of the example's value or more.
        drawn.flat[0] = low
        yield "", drawn

    def _draw_normal(
        self, array: NumpyArray, shape: tuple[int, ...], mean: complex, spread: float
    ) -> NumpyArray:
        drawn = mean + spread * self.random.standard_normal(shape)
        if array.dtype.kind == "c":
            drawn = drawn + 1j * spread * self.random.standard_normal(shape)
        return np.asarray(drawn).astype(array.dtype)


def is_constant(array: NumpyArray) -> bool:
    """Return True if an array of numbers is not empty and all its elements are equal."""
    if array.size == 0 or array.dtype.kind not in "biuf":
        return False
    return bool((array == array.flat[0]).all())


def _is_mask(array: NumpyArray) -> bool:
    return bool(array.min() >= 0 and array.max() <= 1)


def _add_holes(mask: NumpyArray) -> NumpyArray:
    """Return a copy of a constant mask, with two elements of each row inverted.

    The inverted elements are the last one and, in a row of more than three, an earlier one.
    """
    rows = mask.copy().reshape(-1, mask.shape[-1] if mask.ndim else 1)
    other = np.asarray(1 - int(mask.flat[0])).astype(mask.dtype)
    length = rows.shape[1]
    rows[:, -1] = other
    for number, row in enumerate(rows):
        if length > 3:
            row[1 + number % (length - 3)] = other
    return rows.reshape(mask.shape)


def _compute_statistics(array: NumpyArray) -> tuple[complex, float, float, float]:
    """Return the mean, the standard deviation, the minimum and the maximum of the finite values."""
    finite = array[np.isfinite(array)]
    if finite.size == 0:
        return 0.0, 0.0, 0.0, 0.0
    wide = finite.astype(np.complex128 if finite.dtype.kind == "c" else np.float64)
    if finite.dtype.kind == "c":
        return wide.mean(), float(wide.std()), 0.0, 0.0
    return wide.mean(), float(wide.std()), finite.min(), finite.max()
