"""Probes: inputs of our own making, which an artifact is compared on besides its example.

An engine that is right at the example only, because a branch of the model or a value of the example
was baked into it, is wrong on one of these. They are drawn with a seed, so that the same example
leads to the same probes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.models import between_shapes, extreme_shapes
from enginebay.tensors import resize
from enginebay.verification.arrays import is_float

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from enginebay.models import DynamicShapes
    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]
    Shapes = Mapping[str, tuple[int, ...]]

#: Input name → the least and the greatest value that it takes.
Domain = dict[str, tuple[float, float]]

#: How many probes there are by default: all of the kinds below.
PROBES = 8

#: A spread below this says nothing about the values that a model is made for: an example of
#: zeros, or one number. Probes have unit spread then, as the inputs of most networks do.
_FAR_SMALLER = 1e-2


@dataclass(frozen=True)
class Probe:
    """Inputs to compare on.

    Attributes:
        label: What they are, for messages: ``redrawn``.
        inputs: Arrays by name.
        required: True if the model must take them: it was deployed for these sizes.
        beyond: True if some value lies outside of what the example has.
        tied: True if all floats are equal, and have no order.
        tiled: The example itself at these sizes, for a model that takes no drawn values; None
            where the sizes are the example's.
    """

    label: str
    inputs: Arrays
    required: bool = False
    beyond: bool = False
    tied: bool = False
    tiled: Arrays | None = None


def extremes(example: Arrays, dynamic: DynamicShapes, domain: Domain | None = None) -> list[Probe]:
    """The smallest and the largest sizes, with rows that differ; none where no size is open."""
    drawing = _Drawing(example, domain or {}, seed=0)
    return [
        drawing.at(shapes, f"the sizes {_sizes(shapes)}", required=True)
        for shapes in extreme_shapes(dynamic, _shapes(example))
    ]


def probes(
    example: Arrays,
    dynamic: DynamicShapes,
    *,
    count: int = PROBES,
    domain: Domain | None = None,
    wide: bool = True,
    seed: int = 0,
) -> list[Probe]:
    """The first ``count`` probes of an example.

    At the example's sizes floats are redrawn with its mean and spread, and permuted; where sizes
    are open, an odd and a prime number between the smallest and the largest follow; then floats
    of the other sign, with ten times the spread, and zeros. Integers stay between the example's
    least and greatest, zeros and ones (masks) keep their counts.

    Args:
        example: The example inputs by name.
        dynamic: The open dimensions.
        count: How many at most.
        domain: Bounds to stay inside of.
        wide: Stretch floats as well: single precision has the range for it, others may not.
        seed: Another seed, other probes.
    """
    drawing = _Drawing(example, domain or {}, seed)
    return list(islice(drawing.all(dynamic, wide=wide), count))


class _Drawing:
    """Draws inputs that resemble an example."""

    def __init__(self, example: Arrays, domain: Domain, seed: int) -> None:
        self._example = example
        self._domain = domain
        self._random = np.random.default_rng(seed)

    def all(self, dynamic: DynamicShapes, *, wide: bool) -> Iterator[Probe]:
        """Every probe, those first that find most."""
        yield self._probe("redrawn", self._redrawn)
        yield self._probe("permuted", self._permuted)
        for shapes in between_shapes(dynamic, _shapes(self._example)):
            yield self.at(shapes, f"the sizes {_sizes(shapes)}")
        floats = [array for array in self._example.values() if is_float(array)]
        if floats:
            yield self._probe("the other sign", lambda array: self._floats(array, factor=-1.0))
            if wide and all(array.dtype.itemsize >= 4 for array in floats):
                yield self._probe("ten times the spread", self._wide)
            zeros = self._probe("zeros", lambda array: self._floats(array, factor=0.0))
            yield replace(zeros, tied=True)

    def at(self, shapes: Shapes, label: str, *, required: bool = False) -> Probe:
        """Values drawn at other sizes."""
        tiled = {name: resize(array, shapes[name]) for name, array in self._example.items()}
        inputs = {
            name: self._clipped(name, self._redrawn(array, shapes[name]))
            for name, array in self._example.items()
        }
        beyond = self._is_beyond(inputs)
        return Probe(label, inputs, required=required, beyond=beyond, tiled=tiled)

    def _probe(self, label: str, draw: Any) -> Probe:
        inputs = {name: self._clipped(name, draw(array)) for name, array in self._example.items()}
        return Probe(label, inputs, beyond=self._is_beyond(inputs))

    def _redrawn(self, array: NumpyArray, shape: tuple[int, ...] | None = None) -> NumpyArray:
        shape = array.shape if shape is None else shape
        if array.size == 0:
            return resize(array, shape)
        if not is_float(array):
            if array.dtype.kind not in "iu" or _is_mask(array):
                return self._permuted(resize(array, shape))
            least, greatest = int(array.min()), int(array.max())
            return self._random.integers(least, greatest, shape, array.dtype, endpoint=True)
        mean, spread, low, high = _statistics(array)
        if spread < _FAR_SMALLER:
            return self._normal(array, shape, mean, 1.0)
        drawn = self._normal(array, shape, mean, spread)
        return drawn if array.dtype.kind == "c" else np.clip(drawn, low, high).astype(array.dtype)

    def _permuted(self, array: NumpyArray) -> NumpyArray:
        return self._random.permutation(array.reshape(-1)).reshape(array.shape)

    def _wide(self, array: NumpyArray) -> NumpyArray:
        if not is_float(array) or array.size == 0:
            return self._redrawn(array)
        mean, spread, *_ = _statistics(array)
        return self._normal(array, array.shape, mean, 10 * max(spread, _FAR_SMALLER))

    def _floats(self, array: NumpyArray, *, factor: float) -> NumpyArray:
        drawn = self._redrawn(array)
        return (drawn * factor).astype(array.dtype) if is_float(array) else drawn

    def _normal(
        self, array: NumpyArray, shape: tuple[int, ...], mean: Any, spread: float
    ) -> NumpyArray:
        drawn = mean + spread * self._random.standard_normal(shape)
        if array.dtype.kind == "c":
            drawn = drawn + 1j * spread * self._random.standard_normal(shape)
        return np.asarray(drawn).astype(array.dtype)

    def _clipped(self, name: str, array: NumpyArray) -> NumpyArray:
        if name not in self._domain:
            return array
        low, high = self._domain[name]
        return np.clip(array, low, high).astype(array.dtype)

    def _is_beyond(self, inputs: Arrays) -> bool:
        """True if a float lies outside of the example's values, and no domain holds it."""
        return any(
            is_float(array)
            and array.size > 0
            and array.dtype.kind != "c"
            and name not in self._domain
            and bool(
                (array.min() < self._example[name].min())
                | (array.max() > self._example[name].max())
            )
            for name, array in inputs.items()
        )


def _statistics(array: NumpyArray) -> tuple[Any, float, Any, Any]:
    """The mean, the spread (one standard deviation), the least and the greatest finite value."""
    finite = array[np.isfinite(array)]
    if finite.size == 0:
        return 0.0, 0.0, 0.0, 0.0
    wide = finite.astype(np.complex128 if finite.dtype.kind == "c" else np.float64)
    if finite.dtype.kind == "c":
        return wide.mean(), float(wide.std()), 0.0, 0.0
    return wide.mean(), float(wide.std()), finite.min(), finite.max()


def _is_mask(array: NumpyArray) -> bool:
    return bool(array.min() >= 0 and array.max() <= 1)


def _shapes(example: Arrays) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in example.items()}


def _sizes(shapes: Shapes) -> str:
    return ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in shapes.items())
