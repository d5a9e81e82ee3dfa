"""Random arrays that resemble the example of an input."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from enginebay.reference.mask_values import MIRRORED, OTHER_VALUES, vary_mask
from enginebay.tensors import is_float, resize

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from enginebay.tensors import NumpyArray

    Draw = Callable[[tuple[int, ...]], NumpyArray]

#: An example with a smaller standard deviation (zeros, a single number) tells nothing about the
#: usual values of the input. Its probes have a deviation of 1, like the inputs of most networks.
_MIN_SPREAD = 1e-2

#: The standard deviation of large values: exp overflows in float32 from 89 on, and 1e3 squared is
#: still exact.
_LARGE_SPREAD = 1e3

#: float32 represents every integer up to here, but beyond only even integers.
_MAX_EXACT_INTEGER = 2**24

#: Squares of values that are smaller by this factor lie below the usual epsilons of 1e-5 and 1e-6.
_SMALL_FACTOR = 1e-3

#: The level of values that the model compares an input with.
SPECIAL = "special values"

#: The share of special values in a probe with special values. Each of them occurs at least once.
_SPECIAL_SHARE = 0.2

#: The level of floats that are all equal.
ZEROS = "zeros"

#: The level of an input that may hold an image.
PIXELS = "pixels up to 255"

#: The largest value of a pixel. Examples from 0 to 1 with three axes or more are often images.
_LARGEST_PIXEL = 255


class ValueGenerator:
    """Draws arrays that resemble the examples of a model's inputs.

    Args:
        example: The example inputs by name.
        below: Input name → exclusive upper bound of the values, if known; for integer inputs only.
        special: Input name → constants that the model compares it with.
        ascending: Names of inputs whose values must ascend along the last axis.
        masks: Names of float inputs that must stay zeros and ones.
        wide: True if the engine may compute in single precision only, which has room for values
            that are much larger than the example's.
        seed: The random seed.
    """

    def __init__(
        self,
        example: Mapping[str, NumpyArray],
        *,
        below: Mapping[str, int],
        special: Mapping[str, Sequence[float]],
        ascending: Collection[str] = (),
        masks: Collection[str] = (),
        wide: bool = True,
        seed: int = 0,
    ) -> None:
        self._example = example
        self._below = below
        self._special = special
        self._ascending = ascending
        self._masks = masks
        floats = [array for array in example.values() if is_float(array)]
        self.wide = wide and all(array.dtype.itemsize >= 4 for array in floats)
        self.random = np.random.default_rng(seed)
        #: The number of rows of an input's table that were drawn.
        self._drawn_rows: dict[str, int] = {}

    def redraw(self, name: str, shape: tuple[int, ...]) -> NumpyArray:
        """Return random values that resemble the input's example.

        Floats have the example's mean and standard deviation, integers its range, texts its words.
        Values of other dtypes, and of a mask, are shuffled.
        """
        array = self._example[name]
        if array.size == 0:
            return resize(array, shape)
        if array.dtype == object:
            return self._draw_texts(resize(array, shape))
        if not is_float(array) or name in self._masks:
            if array.dtype.kind not in "iu" or (_is_mask(array) and name not in self._below):
                return self._shuffle(resize(array, shape))
            least, greatest = self._integer_range(name, array)
            return self.random.integers(least, greatest, shape, array.dtype, endpoint=True)
        mean, spread, low, high = _compute_statistics(array)
        if spread < _MIN_SPREAD:
            drawn = self._draw_normal(array, shape, mean, 1.0)
        else:
            drawn = self._draw_normal(array, shape, mean, spread)
            if array.dtype.kind != "c":
                drawn = np.clip(drawn, low, high).astype(array.dtype)
        return self._restore_order(name, drawn)

    def _integer_range(self, name: str, array: NumpyArray) -> tuple[int, int]:
        least, greatest = int(array.min()), int(array.max())
        # A single index says nothing about the others: any row of the table may be used.
        if least == greatest and name in self._below:
            return 0, self._below[name] - 1
        return least, greatest

    def permute(self, name: str) -> NumpyArray:
        """Return the example's values in random order."""
        return self._restore_order(name, self._shuffle(self._example[name]))

    def _draw_texts(self, array: NumpyArray) -> NumpyArray:
        """Return texts of words that occur in the array's; texts of a single word are shuffled."""
        words = [text.split() for text in array.flat]
        if max(map(len, words)) < 2:  # categories
            return self._shuffle(array)
        known = [word for text in words for word in text]
        drawn = np.empty(array.size, object)
        drawn[:] = [" ".join(self.random.choice(known, len(text))) for text in words]
        return drawn.reshape(array.shape)

    def _shuffle(self, array: NumpyArray) -> NumpyArray:
        return self.random.permutation(array.reshape(-1)).reshape(array.shape)

    def _restore_order(self, name: str, array: NumpyArray) -> NumpyArray:
        return np.sort(array, -1) if name in self._ascending and array.ndim else array

    def common_levels(self, name: str) -> dict[str, Draw]:
        """Return how the values may vary in all inputs at once: label → function of the shape."""
        array = self._example[name]
        if array.size == 0:
            return {}
        if is_float(array):
            return {} if self._is_mask_input(name) else self._float_levels(name, array)
        # If there are floats, integers are lengths and positions, which are never negative.
        if self._can_invert(name) and not any(map(is_float, self._example.values())):
            return {"integers turned over": lambda shape: ~self.redraw(name, shape)}
        return {}

    def own_levels(self, name: str) -> dict[str, Draw]:
        """Return how this input may vary, be it a mask, a single value or rows of a table."""
        array = self._example[name]
        if self._is_mask_input(name):
            levels = vary_mask(_find_kept_value(array))
            if not is_constant(array):  # the holes of such a mask are shuffled in any case
                levels = {n: d for n, d in levels.items() if n not in (OTHER_VALUES, MIRRORED)}
            if array.ndim == 0 or array.shape[-1] == 1:  # a flag, which has no padding
                levels = {n: draw for n, draw in levels.items() if n == OTHER_VALUES}
            return {n: partial(_draw_as, array.dtype, draw) for n, draw in levels.items()}
        if array.dtype.kind not in "iu" or not array.size:
            return {}
        levels = {}
        if is_constant(array):
            levels[OTHER_VALUES] = partial(self._draw_other_integers, name)
        if name in self._below:
            levels["other rows of its table"] = partial(self._draw_rows, name)
        if special := self._find_special(name):
            levels[SPECIAL] = partial(self._draw_special, name, special)
        return levels

    def _is_mask_input(self, name: str) -> bool:
        """Return True for an input of zeros and ones, unless it indexes a tensor.

        Floats count as a mask only if they must stay zeros and ones, or if they are all 0, or all
        1, and the model has other inputs.
        """
        array = self._example[name]
        if array.dtype.kind not in "biuf" or not array.size or name in self._below:
            return False
        if is_float(array):
            is_single = is_constant(array) and array.flat[0] in (0, 1)
            return name in self._masks or (is_single and len(self._example) > 1)
        return _is_mask(array)

    def _float_levels(self, name: str, array: NumpyArray) -> dict[str, Draw]:
        def scale(factor: float) -> Draw:
            return lambda shape: self._restore_order(
                name, (self.redraw(name, shape) * factor).astype(array.dtype)
            )

        word, factor = ("ten", 10) if self.wide else ("three", 3)
        levels: dict[str, Draw] = {
            "the other sign": scale(-1.0),
            f"{word} times the spread": partial(self._draw_wide, name, factor),
            ZEROS: scale(0.0),
            "a thousandth": scale(_SMALL_FACTOR),
        }
        is_image = array.dtype.kind == "f" and array.ndim > 2 and array.min() >= 0
        if special := self._find_special(name):
            levels[SPECIAL] = partial(self._draw_special, name, special)
        if self.wide and is_image and array.max() <= 1 and not is_constant(array):
            levels[PIXELS] = partial(self._draw_pixels, name)
        return levels

    def _draw_wide(self, name: str, factor: float, shape: tuple[int, ...]) -> NumpyArray:
        array = self._example[name]
        mean, spread, *_ = _compute_statistics(array)
        drawn = self._draw_normal(array, shape, mean, factor * max(spread, _MIN_SPREAD))
        return self._restore_order(name, drawn)

    def _draw_pixels(self, name: str, shape: tuple[int, ...]) -> NumpyArray:
        drawn = self.random.integers(0, _LARGEST_PIXEL, shape, endpoint=True)
        return self._restore_order(name, drawn.astype(self._example[name].dtype))

    def _draw_other_integers(self, name: str, shape: tuple[int, ...]) -> NumpyArray:
        """Return other values than the example's single one: indices, lengths, positions, steps."""
        array = self._example[name]
        value = int(array.flat[0])
        if name in self._below:
            low, high = 0, max(self._below[name], 2)
        else:
            # Lengths, time steps and positions mostly have an upper limit, so smaller values are
            # drawn; but not 0, since many models reject a length of 0.
            low, high = (1, value) if value > 1 else (value + 1, 1)
        drawn = np.asarray(self.random.integers(low, high, shape, array.dtype))
        # The least value is always drawn: engines have assumed half of the example's value or more.
        drawn.flat[:1] = low
        return drawn

    def _draw_rows(self, name: str, shape: tuple[int, ...]) -> NumpyArray:
        """Return rows of a table that were not drawn yet, from its end on, until all were.

        The last and the first row are always among them: a single wrong row shows nowhere else.
        """
        limit, start, count = self._below[name], self._drawn_rows.get(name, 0), math.prod(shape)
        ends = (limit - 1, 0) if count > 2 else ()
        inner = count - len(ends)
        self._drawn_rows[name] = start + inner
        rows = self.random.permutation((limit - 1 - start - np.arange(inner)) % limit)
        drawn = np.array([*ends[:1], *rows, *ends[1:]], self._example[name].dtype)
        return drawn.reshape(shape)

    def _find_special(self, name: str) -> list[float]:
        """Return the special values of an input that its table and its dtype have."""
        values, dtype = self._special.get(name, ()), self._example[name].dtype
        if dtype.kind not in "iu":
            return [*values]
        limits = np.iinfo(dtype)
        least, limit = (0, self._below[name]) if name in self._below else (limits.min, limits.max)
        return [value for value in values if least <= value < limit and value == int(value)]

    def _draw_special(
        self, name: str, special: Sequence[float], shape: tuple[int, ...]
    ) -> NumpyArray:
        """Return values as usual, some of which are replaced by special ones, such as padding."""
        drawn = self.redraw(name, shape)
        chosen = self.random.choice(special, shape).astype(drawn.dtype)
        mixed = np.where(self.random.random(shape) < _SPECIAL_SHARE, chosen, drawn)
        places = self.random.permutation(mixed.size)[: len(special)]
        mixed.flat[places] = special[: len(places)]
        return mixed

    def _can_invert(self, name: str) -> bool:
        """Return True for integers that vary, except a mask (0 and 1) and indices into a tensor."""
        array = self._example[name]
        if array.dtype.kind not in "iu" or not array.size or name in self._below:
            return False
        # Lengths, positions and time steps mostly come as a single number.
        return not is_constant(array) and not _is_mask(array)

    def draw_large_floats(self, name: str) -> NumpyArray:
        """Return floats whose exponential overflows; for other dtypes, call :meth:`redraw`."""
        array = self._example[name]
        if not is_float(array):
            return self.redraw(name, array.shape)
        return self._draw_normal(array, array.shape, 0.0, _LARGE_SPREAD)

    def draw_large_integers(self, name: str) -> NumpyArray:
        """Return integers beyond float32's precision; for other dtypes, call :meth:`redraw`."""
        array = self._example[name]
        if array.dtype.kind not in "iu" or array.dtype.itemsize < 4:
            return self.redraw(name, array.shape)
        return np.asarray(
            self.random.integers(_MAX_EXACT_INTEGER, 2**31 - 1, array.shape, array.dtype)
        )

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


def _find_kept_value(mask: NumpyArray) -> int:
    """Return the value of most elements: padding is rarer."""
    return int(2 * np.count_nonzero(mask) >= mask.size)


def _draw_as(dtype: np.dtype[np.generic], draw: Draw, shape: tuple[int, ...]) -> NumpyArray:
    return draw(shape).astype(dtype)


def _compute_statistics(array: NumpyArray) -> tuple[complex, float, float, float]:
    """Return the mean, the standard deviation, the minimum and the maximum of the finite values."""
    finite = array[np.isfinite(array)]
    if finite.size == 0:
        return 0.0, 0.0, 0.0, 0.0
    wide = finite.astype(np.complex128 if finite.dtype.kind == "c" else np.float64)
    if finite.dtype.kind == "c":
        return wide.mean(), float(wide.std()), 0.0, 0.0
    return wide.mean(), float(wide.std()), finite.min(), finite.max()
