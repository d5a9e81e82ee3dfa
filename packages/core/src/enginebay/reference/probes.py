"""Probe inputs: generated inputs on which an artifact is compared, in addition to the example.

Probe inputs reveal an engine that is right on the example only, because tracing made a branch of
the model or a value of the example constant. The seed is fixed, so that the same example leads to
the same probe inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from enginebay.errors import UsageError
from enginebay.models import between_shapes, crossed_shapes, extreme_shapes
from enginebay.reference.probe_values import ValueGenerator, is_constant
from enginebay.tensors import is_float, resize
from enginebay.verdict import PROBES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from enginebay.params import DynamicShapes
    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]
    Shapes = Mapping[str, tuple[int, ...]]

#: The lower and the upper bound of an input's values, by input name.
Domain = dict[str, tuple[float, float]]

#: The label of the probe with NaN and infinity. An engine may differ on it: it never fails the
#: verdict.
NON_FINITE = "NaN and infinity"


@dataclass(frozen=True)
class Probe:
    """A probe input: generated inputs on which an engine is compared with the reference.

    Attributes:
        label: The name of the probe input in messages: ``redrawn``.
        inputs: Arrays by input name.
        required: True if the model must accept the inputs, because it was deployed for these sizes.
        beyond: True if a value lies outside the example's range.
        tied: True if the elements of each float input are all equal, so that the order in which a
            sort returns their indices is undefined.
        tiled: Arrays of the same sizes that repeat the example's values, for a model that rejects
            random values; None if the sizes are the example's.
    """

    label: str
    inputs: Arrays
    required: bool = False
    beyond: bool = False
    tied: bool = False
    tiled: Arrays | None = None


@dataclass(frozen=True)
class ProbeSettings:
    """Settings of the probe inputs (generated, similar to the example).

    Attributes:
        count: The largest number of probe inputs that vary everything at once. Probe inputs at the
            limits of dynamic dimensions are always added. Probe inputs that vary a single size or
            input are added if the count is not 0.
        domain: Input name → lower and upper bound of the generated values.
        large: True to also generate values at the limits of float32.
        calibrated: The precision of an engine that was calibrated with data; otherwise empty.

    Raises:
        UsageError: The count is negative.
    """

    count: int = PROBES
    domain: Domain = field(default_factory=dict)
    large: bool = False
    calibrated: str = ""

    def __post_init__(self) -> None:
        if self.count < 0:
            raise UsageError(
                f"invalid number of probe inputs {self.count}: expected at least 0",
                hint="with --probes 0, only the outputs on the example inputs are compared",
            )


class ProbeGenerator:
    """Generates probe inputs that resemble an example.

    Args:
        example: The example inputs by name.
        settings: Which probe inputs to generate.
        below: Input name → exclusive upper bound of the values, if known; for integer inputs only.
        seed: The random seed.
    """

    def __init__(
        self,
        example: Arrays,
        settings: ProbeSettings,
        *,
        below: Mapping[str, int] | None = None,
        seed: int = 0,
    ) -> None:
        self._example = example
        self._settings = settings
        self._values = ValueGenerator(below or {}, seed)

    def draw_all(self, dynamic: DynamicShapes, precision: str) -> list[Probe]:
        """Return every probe input that the settings request.

        The smallest and largest sizes of dynamic dimensions come first, then probe inputs that vary
        a single size or input, then up to ``count`` that vary everything, and large values last.

        Args:
            dynamic: The dynamic dimensions.
            precision: The coarsest precision that the engine may compute in. Floats with ten times
                the example's standard deviation are generated only for fp32.
        """
        extremes = (
            self.draw_at(shapes, required=True)
            for shapes in extreme_shapes(dynamic, _example_shapes(self._example))
        )
        # A calibrated engine is right for values like those of its data only.
        if self._settings.calibrated:
            return [replace(probe, inputs=probe.tiled or probe.inputs) for probe in extremes]
        wide = precision == "fp32"
        usual = islice(self._draw_usual(dynamic, wide=wide), self._settings.count)
        separate = self._draw_separate(dynamic) if self._settings.count else ()
        large = self._draw_large() if self._settings.large else ()
        return [*extremes, *separate, *usual, *large]

    def _draw_separate(self, dynamic: DynamicShapes) -> Iterator[Probe]:
        """Yield probe inputs at the shapes of :func:`crossed_shapes`, then at the example's shapes.

        At the example's shapes, each probe input has new values for a single input, whose elements
        are all equal in the example. All other inputs have the example's values.
        """
        for shapes in crossed_shapes(dynamic, _example_shapes(self._example)):
            yield self.draw_at(shapes)
        is_only_input = len(self._example) == 1
        for name, array in self._example.items():
            if not is_constant(array):
                continue
            varied = self._values.vary_constant(name, array, is_only_input=is_only_input)
            for suffix, values in varied:
                inputs = {**self._example, name: self._clip_to_domain(name, values)}
                label = f"other values of {name}{suffix}"
                yield Probe(label, inputs, beyond=self._is_beyond(inputs))

    def _draw_usual(self, dynamic: DynamicShapes, *, wide: bool) -> Iterator[Probe]:
        """Yield probe inputs, the most useful first; :meth:`draw_all` takes ``count`` of them."""
        floats = [array for array in self._example.values() if is_float(array)]
        wide = wide and all(array.dtype.itemsize >= 4 for array in floats)
        yield self.draw_similar()
        if not wide or len(floats) < len(self._example):
            yield self._make_probe("permuted", lambda _, array: self._values.permute(array))
        # If there are floats, integers are lengths and positions, which are never negative.
        can_invert = self._values.can_invert
        if not floats and any(can_invert(*item) for item in self._example.items()):
            yield self._make_probe("integers turned over", self._values.invert_integers)
        for shapes in between_shapes(dynamic, _example_shapes(self._example)):
            yield self.draw_at(shapes)
        if floats:
            yield self._draw_scaled("the other sign", -1.0)
            if wide:
                yield self._make_probe("ten times the spread", self._values.draw_wide)
            yield replace(self._draw_scaled("zeros", 0.0), tied=True)

    def _draw_large(self) -> Iterator[Probe]:
        arrays = self._example.values()
        if any(is_float(array) for array in arrays):
            yield self._make_probe("large floats", self._values.draw_large_floats)
        if any(array.dtype.kind in "iu" and array.dtype.itemsize >= 4 for array in arrays):
            yield self._make_probe("large integers", self._values.draw_large_integers)

    def draw_non_finite(self) -> Arrays | None:
        """Return the example with NaN and infinity among the values of each float input.

        Inputs whose values the caller limits by ``domain`` stay unchanged. Return None if no float
        input remains, if the example itself contains NaN, or if no probe inputs are requested.
        """
        arrays = {
            name: array.copy()
            for name, array in self._example.items()
            if is_float(array) and array.size and name not in self._settings.domain
        }
        has_nan = any(is_float(x) and np.isnan(x).any() for x in self._example.values())
        if not arrays or not self._settings.count or has_nan:
            return None
        for array in arrays.values():
            # At least three positions, for NaN and both infinities.
            indices = self._values.random.permutation(array.size)[: 3 + array.size // 16]
            array.reshape(-1)[indices] = np.resize([np.nan, np.inf, -np.inf], indices.size)
        return {**self._example, **arrays}

    def draw_similar(self) -> Probe:
        """Return a probe input of random values that resemble the example.

        Floats have the mean and the standard deviation of the example's floats. Integers lie in the
        range of the example's integers. If those are indices that are all equal, the new integers
        lie in the range of all valid indices.
        """
        return self._make_probe("redrawn", self._values.redraw)

    def draw_at(self, shapes: Shapes, *, required: bool = False) -> Probe:
        """Return a probe input of the given shapes, with values as in :meth:`draw_similar`."""
        tiled = {name: resize(array, shapes[name]) for name, array in self._example.items()}
        probe = self._make_probe(
            f"the sizes {_format_sizes(shapes)}",
            lambda name, array: self._values.redraw(name, array, shapes[name]),
        )
        return replace(probe, required=required, tiled=tiled)

    def _make_probe(self, label: str, draw: Callable[[str, NumpyArray], NumpyArray]) -> Probe:
        drawn = {
            name: self._clip_to_domain(name, draw(name, array))
            for name, array in self._example.items()
        }
        return Probe(label, drawn, beyond=self._is_beyond(drawn))

    def _draw_scaled(self, label: str, factor: float) -> Probe:
        def draw(name: str, array: NumpyArray) -> NumpyArray:
            drawn = self._values.redraw(name, array)
            return (drawn * factor).astype(array.dtype) if is_float(array) else drawn

        return self._make_probe(label, draw)

    def _clip_to_domain(self, name: str, array: NumpyArray) -> NumpyArray:
        if name not in self._settings.domain:
            return array
        low, high = self._settings.domain[name]
        return np.clip(array, low, high).astype(array.dtype)

    def _is_beyond(self, inputs: Arrays) -> bool:
        """Return True if an input has a value outside the example's range.

        Bools, complex numbers, and inputs whose values the caller limits by ``domain`` are ignored.
        """
        return any(
            array.size > 0
            # Bools have no range, and complex numbers no order.
            and array.dtype.kind not in "bc"
            and name not in self._settings.domain
            and bool(
                (array.min() < self._example[name].min())
                | (array.max() > self._example[name].max())
            )
            for name, array in inputs.items()
        )


def _example_shapes(example: Arrays) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in example.items()}


def _format_sizes(shapes: Shapes) -> str:
    return ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in shapes.items())
