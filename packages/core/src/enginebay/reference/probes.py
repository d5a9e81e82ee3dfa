"""Probe inputs: generated inputs on which an artifact is compared, in addition to the example.

Probe inputs reveal an engine that is right on the example only, because tracing made a branch of
the model or a value of the example constant. The seed is fixed, so that the same example leads to
the same probe inputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from enginebay.errors import UsageError
from enginebay.models import (
    between_shapes,
    cheap_sizes,
    crossed_shapes,
    extreme_shapes,
    named_sizes,
    odd_multiple,
    shapes_at,
    size_levels,
)
from enginebay.reference.probe_values import PIXELS, ZEROS, ValueGenerator
from enginebay.tensors import is_float, resize
from enginebay.verdict import PROBES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from enginebay.params import DynamicShapes
    from enginebay.tensors import NumpyArray

    Arrays = dict[str, NumpyArray]
    Shapes = Mapping[str, tuple[int, ...]]

    #: How an input varies, or the size of a dimension.
    Level: TypeAlias = str | int

#: The lower and the upper bound of an input's values, by input name.
Domain = dict[str, tuple[float, float]]

#: The label of the probe with NaN, infinity and integers beyond 2³¹. An engine may differ on it: it
#: never fails the verdict.
NON_FINITE = "extreme values"

#: The row of a probe input that only resembles the example.
_NO_LEVELS: Mapping[str, Level] = MappingProxyType({})

#: The label of the probe that only resembles the example, and the usual level of every input.
REDRAWN = "redrawn"


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
        row: The level of each input and dimension that varies: ``{"mask": "an empty row"}``.
        tiled: Arrays of the same sizes that repeat the example's values, for a model that rejects
            random values; None if the sizes are the example's.
    """

    label: str
    inputs: Arrays
    required: bool = False
    beyond: bool = False
    tied: bool = False
    row: Mapping[str, Level] = field(default_factory=dict)
    tiled: Arrays | None = None


@dataclass(frozen=True)
class ProbeSettings:
    """Settings of the probe inputs (generated, similar to the example).

    Attributes:
        count: The largest number of probe inputs that vary everything at once. Probe inputs at the
            limits of dynamic dimensions are always added. Probe inputs that vary a single size or
            input are added if the count is not 0.
        domain: Input name → lower and upper bound of the generated values.
        effort: What combinations, larger sizes and the search for decisions may take, in multiples
            of the usual time, number and bytes.
        large: True to also generate values at the limits of float32.
        calibrated: The precision of an engine that was calibrated with data; otherwise empty.
        timeout: Seconds of processor time that a run on the example, or at a requested size, may
            take.

    Raises:
        UsageError: The count is negative.
    """

    count: int = PROBES
    domain: Domain = field(default_factory=dict)
    effort: int = 1
    large: bool = False
    calibrated: str = ""
    timeout: float = math.inf

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
        dynamic: The dynamic dimensions.
        precision: The coarsest precision that the engine may compute in.
        below: Input name → exclusive upper bound of the values, if known; for integer inputs only.
        special: Input name → constants that the model compares it with.
        ascending: Names of inputs whose values must ascend along the last axis.
        masks: Names of float inputs that must stay zeros and ones.
        seed: The random seed.
    """

    def __init__(
        self,
        example: Arrays,
        settings: ProbeSettings,
        *,
        dynamic: DynamicShapes | None = None,
        precision: str = "fp32",
        below: Mapping[str, int] | None = None,
        special: Mapping[str, Sequence[float]] | None = None,
        ascending: Collection[str] = (),
        masks: Collection[str] = (),
        seed: int = 0,
    ) -> None:
        self._example = example
        self._settings = settings
        self._dynamic = dynamic or {}
        self._shapes = {name: array.shape for name, array in example.items()}
        self._values = ValueGenerator(
            example,
            below=below or {},
            special=special or {},
            ascending=ascending,
            masks=masks,
            wide=precision == "fp32",
            seed=seed,
        )
        self._common = {name: self._values.common_levels(name) for name in example}
        for name in settings.domain:  # which says what the values are
            self._common[name].pop(PIXELS, None)
        self._own = {name: self._values.own_levels(name) for name in example}

    def draw_all(self) -> list[Probe]:
        """Return every probe input that the settings request, apart from those of ``draw_row``.

        The smallest and largest sizes of dynamic dimensions come first, then probe inputs that vary
        a single size or input, then up to ``count`` that vary everything, and large values last.
        """
        # A size that was opened without limits may have others, which are found.
        is_limited = any(
            dim.max is not None for axes in self._dynamic.values() for dim in axes.values()
        )
        extremes = (
            self.draw_at(shapes, required=is_limited)
            for shapes in extreme_shapes(self._dynamic, self._shapes)
        )
        # A calibrated engine is right for values like those of its data only.
        if self._settings.calibrated:
            return [replace(probe, inputs=probe.tiled or probe.inputs) for probe in extremes]
        usual = islice(self._draw_usual(), self._settings.count)
        separate = self._draw_separate() if self._settings.count else ()
        large = self._draw_large() if self._settings.large else ()
        return [*extremes, *separate, *usual, *large]

    def _draw_separate(self) -> Iterator[Probe]:
        """Yield probe inputs at the shapes of :func:`crossed_shapes`, then at the example's shapes.

        At the example's shapes, each probe input has new values for a single input: a mask, an
        index into a table, or a single value. All other inputs have the example's values.
        """
        for shapes in crossed_shapes(self._dynamic, self._shapes):
            yield self.draw_at(shapes)
        for name, levels in self._own.items():
            for level, draw in levels.items():
                inputs = {**self._example, name: draw(self._shapes[name])}
                yield self.make_probe(f"{name}: {level}", inputs, {name: level})

    def _draw_usual(self) -> Iterator[Probe]:
        """Yield probe inputs, the most useful first; :meth:`draw_all` takes ``count`` of them."""
        yield self.draw_similar()
        floats = sum(map(is_float, self._example.values()))
        if not self._values.wide or floats < len(self._example):
            inputs = {name: self._values.permute(name) for name in self._example}
            yield self.make_probe("permuted", inputs)
        levels = dict.fromkeys(level for own in self._common.values() for level in own)
        # Without floats, the only level is that of integers.
        before, after = ([], levels) if floats else (levels, [])
        yield from map(self._draw_level, before)
        for shapes in between_shapes(self._dynamic, self._shapes):
            yield self.draw_at(shapes)
        yield from map(self._draw_level, after)

    def _draw_level(self, level: str) -> Probe:
        """Return a probe input in which all inputs that have a level take it."""
        row = {name: level for name, levels in self._common.items() if level in levels}
        return replace(self.draw_row(row), label=level, tied=level == ZEROS)

    def factors(self, accepted: Collection[str], grain: int) -> dict[str, list[Level]]:
        """Return what varies together in probe inputs: factor → levels, the usual one first.

        A factor is an input that is a mask, a single value or an index, or a dynamic dimension,
        whose name ends in ``=``.

        Args:
            accepted: The labels of the probe inputs that the model has accepted. The values of
                others are left out.
            grain: See :func:`size_levels`.
        """
        factors: dict[str, list[Level]] = {
            name: [REDRAWN, *(level for level in own if f"{name}: {level}" in accepted)]
            for name, own in self._own.items()
        }
        sizes = size_levels(self._dynamic, self._shapes, grain)
        factors.update({f"{name}=": list(levels) for name, levels in sizes.items()})
        return {name: levels for name, levels in factors.items() if len(levels) > 1}

    def single_sizes(
        self, grain: int, seen: Collection[tuple[str, Level]]
    ) -> list[tuple[str, int]]:
        """Return factor and size of each cheap size that ``seen`` lacks, round ones first.

        Args:
            grain: See :func:`size_levels`.
            seen: Pairs of factor and level.
        """
        sizes = [
            (f"{name}=", size)
            for name, (dim, usual) in named_sizes(self._dynamic, self._shapes).items()
            for size in cheap_sizes(dim, usual, grain)
        ]
        # The largest power of 2 that divides a size: 16, 8, 24, 4, 12 …
        return sorted(set(sizes).difference(seen), key=lambda item: (-(item[1] & -item[1]), item))

    def draw_row(self, row: Mapping[str, Level]) -> Probe:
        """Return a probe input with a level of each factor; others are as usual."""
        sizes = {name[:-1]: int(level) for name, level in row.items() if name.endswith("=")}
        shapes = shapes_at(self._dynamic, self._shapes, sizes)
        inputs = {}
        for name, shape in shapes.items():
            levels = {**self._common[name], **self._own[name]}
            draw = levels.get(str(row.get(name)), partial(self._values.redraw, name))
            inputs[name] = draw(shape)
        parts = (
            f"{name}{level}" if name.endswith("=") else f"{name}: {level}"
            for name, level in row.items()
            if level != REDRAWN
        )
        return self.make_probe("; ".join(parts), inputs, row)

    def draw_largest(self, sizes: Mapping[str, int]) -> Probe:
        """Return a probe input of these sizes, in which masks and single values have other values.

        Args:
            sizes: Dimension name → size.
        """
        row: dict[str, Level] = {f"{name}=": size for name, size in sizes.items()}
        row |= {name: next(iter(levels)) for name, levels in self._own.items() if levels}
        return self.draw_row(row)

    def draw_near(self, probe: Probe, grain: int) -> Probe | None:
        """Return a probe input near another one, whose sizes are odd multiples of ``grain``.

        Sizes of which the usual one is no multiple stay the usual ones. Return None if there are no
        such shapes but those of ``probe`` and of the example.
        """
        shapes = {name: array.shape for name, array in probe.inputs.items()}
        sizes = {}
        for name, (dim, usual) in named_sizes(self._dynamic, self._shapes).items():
            size = named_sizes(self._dynamic, shapes)[name][1]
            sizes[name] = usual if usual % grain else odd_multiple(dim, size, grain) or usual
        near = shapes_at(self._dynamic, self._shapes, sizes)
        return None if near in (shapes, self._shapes) else self.draw_at(near)

    def _draw_large(self) -> Iterator[Probe]:
        arrays = self._example.values()
        if any(is_float(array) for array in arrays):
            inputs = {name: self._values.draw_large_floats(name) for name in self._example}
            yield self.make_probe("large floats", inputs)
        if any(array.dtype.kind in "iu" and array.dtype.itemsize >= 4 for array in arrays):
            inputs = {name: self._values.draw_large_integers(name) for name in self._example}
            yield self.make_probe("large integers", inputs)

    def draw_non_finite(self, positions: Collection[str]) -> Arrays | None:
        """Return the example with NaN and infinity in each float input, and integers beyond 2³¹.

        Inputs whose values the caller limits by ``domain`` stay unchanged. Return None if no input
        remains, if the example itself contains NaN, or if no probe inputs are requested.

        Args:
            positions: Names of integer inputs that stay unchanged: sizes and indices beyond 2³¹
                would take that much memory.
        """
        arrays = {
            name: array.copy()
            for name, array in self._example.items()
            if (is_float(array) or (array.dtype == np.int64 and name not in positions))
            and array.size
            and name not in self._settings.domain
        }
        has_nan = any(is_float(x) and np.isnan(x).any() for x in self._example.values())
        if not arrays or not self._settings.count or has_nan:
            return None
        for array in arrays.values():
            # At least three positions, for NaN and both infinities.
            indices = self._values.random.permutation(array.size)[: 3 + array.size // 16]
            extremes = [np.nan, np.inf, -np.inf] if is_float(array) else [2**31, 2**32 + 5]
            array.reshape(-1)[indices] = np.resize(extremes, indices.size)
        return {**self._example, **arrays}

    def draw_similar(self) -> Probe:
        """Return a probe input of random values that resemble the example.

        Floats have the mean and the standard deviation of the example's floats. Integers lie in the
        range of the example's integers. If those are indices that are all equal, the new integers
        lie in the range of all valid indices.
        """
        return replace(self.draw_row({}), label=REDRAWN)

    def draw_at(self, shapes: Shapes, *, required: bool = False) -> Probe:
        """Return a probe input of the given shapes, with values as in :meth:`draw_similar`."""
        tiled = {name: resize(array, shapes[name]) for name, array in self._example.items()}
        inputs = {name: self._values.redraw(name, shape) for name, shape in shapes.items()}
        sizes = named_sizes(self._dynamic, shapes)
        row: dict[str, Level] = {f"{name}=": size for name, (_, size) in sizes.items()}
        probe = self.make_probe(f"the sizes {format_sizes(shapes)}", inputs, row)
        return replace(probe, required=required, tiled=tiled)

    def make_probe(self, label: str, drawn: Arrays, row: Mapping[str, Level] = _NO_LEVELS) -> Probe:
        """Return a probe input with these arrays, clipped to the domain."""
        inputs = {name: self._clip_to_domain(name, array) for name, array in drawn.items()}
        return Probe(label, inputs, beyond=self._is_beyond(inputs), row=row)

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


def format_sizes(shapes: Shapes) -> str:
    """Return shapes as one text: ``x:1x3,mask:1x77``."""
    return ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in shapes.items())
