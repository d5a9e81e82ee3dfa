"""Input shapes at which an artifact with dynamic dimensions is verified."""

from __future__ import annotations

import math
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from enginebay.params import add_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from enginebay.params import DynamicDim, DynamicShapes


#: The sizes of a dimension that are tried with other values, not alone: up to four times the usual
#: size, or what is quick with any model.
_MAX_GROWTH = 4
_CHEAP_SIZE = 16
#: Inputs of more elements than this, together, are tried at no more than twice their size, if no
#: range asks for more: a network's largest tensor has several times as many.
_LARGE = 1 << 22


def extreme_shapes(
    dynamic: DynamicShapes, usual: Mapping[str, tuple[int, ...]]
) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield the inputs' shapes at the smallest, then at the largest size of all dynamic dimensions.

    A dimension without a limit keeps its usual size. Shapes equal to the usual ones are skipped.

    Example:
        >>> from enginebay.params import DynamicDim
        >>> list(extreme_shapes({"x": {0: DynamicDim("batch", 1, 8)}}, {"x": (2, 3)}))
        [{'x': (1, 3)}, {'x': (8, 3)}]
    """
    for bound in ("min", "max"):
        shapes = _resize_shapes(dynamic, usual, partial(_choose_limit, bound))
        if shapes != dict(usual):
            yield shapes


def _resize_shapes(
    dynamic: DynamicShapes,
    usual: Mapping[str, tuple[int, ...]],
    choose: Callable[[DynamicDim, int], int],
) -> dict[str, tuple[int, ...]]:
    sizes = {name: choose(dim, size) for name, (dim, size) in named_sizes(dynamic, usual).items()}
    return {
        name: tuple(
            add_sizes(dim.name, sizes) or 0 if (dim := dynamic.get(name, {}).get(axis)) else size
            for axis, size in enumerate(shape)
        )
        for name, shape in usual.items()
    }


def _choose_limit(bound: str, dim: DynamicDim, size: int) -> int:
    """Return the limit ``min`` or ``max`` of a dimension; without a limit, the usual size."""
    if dim.max is None and not dim.min:  # an axis from a config, whose range is unknown
        return size
    limit = getattr(dim, bound)
    return size if limit is None else int(limit)


def crossed_shapes(
    dynamic: DynamicShapes, usual: Mapping[str, tuple[int, ...]]
) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield shapes of the inputs in which dynamic dimensions have unequal sizes.

    The first shapes change all dimensions, and all later ones a single dimension. An engine that
    swaps height and width fails at these shapes, while equal sizes would hide the error.

    Example:
        >>> from enginebay.params import DynamicDim
        >>> image = {"x": {0: DynamicDim("height", 4, 64), 1: DynamicDim("width", 4, 64)}}
        >>> list(crossed_shapes(image, {"x": (16, 16)}))
        [{'x': (31, 29)}, {'x': (31, 16)}, {'x': (16, 29)}]
    """
    named = named_sizes(dynamic, usual)
    # A single dimension cannot be swapped with another one.
    if len(named) < 2:
        return
    chosen: dict[str, int] = {}
    for name, (dim, size) in named.items():
        # Generated lazily, since a large range has many primes.
        candidates = chain(_prime_sizes(dim, size), (size + 1, dim.max or 0, size - 1, dim.min))
        # 0 stands for a missing limit among the candidates.
        taken = (*chosen.values(), size, 0)
        chosen[name] = next((n for n in candidates if dim.holds(n) and n not in taken), size)
    seen = [dict(usual)]
    for sizes in (chosen, *({name: size} for name, size in chosen.items())):
        shapes = shapes_at(dynamic, usual, sizes)
        if shapes not in seen:
            seen.append(shapes)
            yield shapes


def size_levels(
    dynamic: DynamicShapes, usual: Mapping[str, tuple[int, ...]], grain: int = 1
) -> dict[str, list[int]]:
    """Return the sizes at which each dynamic dimension is tried: dimension name → sizes.

    The first is the usual size. The others ascend: its neighbours, an odd, a prime and an even size
    from the middle of the range, the limits, and the sizes of other axes, where a layout that is
    guessed by sizes goes wrong. Sizes that would cost several times as much as the usual one are
    left out.

    Args:
        dynamic: The dynamic dimensions.
        usual: Input name → usual shape.
        grain: A size that is a multiple of this number stays one.

    Example:
        >>> from enginebay.params import DynamicDim
        >>> size_levels({"x": {0: DynamicDim("batch", 1, 16)}}, {"x": (2, 3)})
        {'batch': [2, 1, 3, 7, 8, 9, 16]}
    """
    sizes_in_use = {size for shape in usual.values() for size in shape}
    levels: dict[str, list[int]] = {}
    for name, (dim, size) in named_sizes(dynamic, usual).items():
        middle = _middle_size(dim, size)
        cheap = cheap_sizes(dim, size, grain)
        unit = cheap.step
        candidates = (
            *(size + unit, size - unit, _choose_odd_size(dim, size)),
            *(_choose_prime_size(dim, size), middle // 8 * 8 or middle // 2 * 2),
            *(*sizes_in_use, dim.min, dim.max or 0),
        )
        rounded = {(candidate + unit // 2) // unit * unit for candidate in candidates}
        levels[name] = [size, *sorted(n for n in rounded if n in cheap and n != size)]
    return levels


def cheap_sizes(dim: DynamicDim, size: int, grain: int = 1) -> range:
    """Return the sizes of a dimension that cost at most a few times as much as the usual one.

    If the usual size is a multiple of ``grain``, all sizes are.

    Example:
        >>> from enginebay.params import DynamicDim
        >>> cheap_sizes(DynamicDim("batch", 2, 100), 1)
        range(2, 17)
    """
    unit = grain if size % grain == 0 else 1
    largest = max(_MAX_GROWTH * size, _CHEAP_SIZE)
    least = max(dim.min, 1)
    return range(-(-least // unit) * unit, min(dim.max or largest, largest) + 1, unit)


def odd_multiple(dim: DynamicDim, size: int, grain: int) -> int | None:
    """Return an odd multiple of ``grain`` near a size; None if there is none within the limits.

    Example:
        >>> from enginebay.params import DynamicDim
        >>> odd_multiple(DynamicDim("height", 64, 256), 131, 32)
        160
    """
    quotient = size // grain | 1
    multiples = (grain * quotient, grain * (quotient - 2))
    return next((multiple for multiple in multiples if dim.holds(multiple)), None)


def named_sizes(
    dynamic: DynamicShapes, usual: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[DynamicDim, int]]:
    """Return dimension name → the dynamic dimension and its usual size; sums are left out."""
    return {
        dim.name: (dim, usual[name][axis])
        for name, axes in dynamic.items()
        for axis, dim in axes.items()
        if not dim.is_sum
    }


def shapes_at(
    dynamic: DynamicShapes, usual: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """Return the usual shapes with new sizes of dynamic dimensions (dimension name → size)."""
    return _resize_shapes(dynamic, usual, lambda dim, size: sizes.get(dim.name, size))


def unlimited_sizes(
    dynamic: DynamicShapes, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    """Return dimension name → size in ``shapes``, for each dimension without a largest size."""
    named = named_sizes(dynamic, shapes)
    return {name: size for name, (dim, size) in named.items() if dim.max is None}


def between_shapes(
    dynamic: DynamicShapes, usual: Mapping[str, tuple[int, ...]]
) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield the inputs' shapes at odd sizes, then at prime sizes of all dynamic dimensions.

    The sizes are near the middle of the range; a range without a limit ends at twice the usual
    size. A model may fail at sizes other than powers of two, or other than the example's.

    Example:
        >>> from enginebay.params import DynamicDim
        >>> list(between_shapes({"x": {0: DynamicDim("batch", 1, 16)}}, {"x": (2, 3)}))
        [{'x': (9, 3)}, {'x': (7, 3)}]
    """
    seen = [dict(usual), *extreme_shapes(dynamic, usual)]
    most = max(_LARGE, 2 * _count_elements(usual), *map(_count_elements, seen))
    for choose in (_choose_odd_size, _choose_prime_size):
        shapes = _resize_shapes(dynamic, usual, choose)
        if shapes not in seen and _count_elements(shapes) <= most:
            seen.append(shapes)
            yield shapes


def _count_elements(shapes: Mapping[str, tuple[int, ...]]) -> int:
    return sum(map(math.prod, shapes.values()))


def _middle_size(dim: DynamicDim, size: int) -> int:
    return (dim.min + (dim.max or 2 * size + 1)) // 2


def _choose_odd_size(dim: DynamicDim, size: int) -> int:
    odd = (_middle_size(dim, size) + 1) | 1
    return odd if dim.holds(odd) else size


def _choose_prime_size(dim: DynamicDim, size: int) -> int:
    return next(_prime_sizes(dim, size), size)


def _prime_sizes(dim: DynamicDim, size: int) -> Iterator[int]:
    """Yield prime numbers from the middle of a dimension's range down to its smallest size."""
    for number in range(_middle_size(dim, size), max(dim.min, 2) - 1, -1):
        if all(number % other for other in range(2, int(number**0.5) + 1)):
            yield number
