"""Open dimensions: which stay open, and between which sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from enginebay.errors import InputError, nearest
from enginebay.params import ShapeProfile, inputs_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from enginebay.tensors import TensorSpec

Shape: TypeAlias = Sequence[int]


class DynamicDim(msgspec.Struct, frozen=True):
    """One open dimension; the same name elsewhere is the same size.

    Attributes:
        name: A Python identifier.
        min: The smallest size.
        max: The largest size; None where there is no limit.
        opt: The size to tune for; None where none was named.
    """

    name: str
    min: int = 1
    max: int | None = None
    opt: int | None = None

    def holds(self, size: int) -> bool:
        """True where the size is in the range."""
        return self.min <= size and (self.max is None or size <= self.max)


#: Input name → axis → dimension.
DynamicShapes: TypeAlias = dict[str, dict[int, DynamicDim]]


def from_profiles(
    profiles: Mapping[str, tuple[Shape, Shape, Shape]], containers: Iterable[str] = ()
) -> DynamicShapes:
    """The open dimensions of shape profiles: those whose smallest and largest size differ.

    Args:
        profiles: Input name → its smallest, its usual and its largest shape.
        containers: Names that stand for all inputs in them, which share their dimensions.

    Example:
        >>> from_profiles({"x": ((1, 3), (4, 3), (8, 3))})
        {'x': {0: DynamicDim(name='x_0', min=1, max=8, opt=4)}}
    """
    owners = {name: each for each in containers for name in inputs_in(each, profiles)}
    return {
        name: {
            axis: DynamicDim(name_axis(owners.get(name, name), axis), low, high, usual)
            for axis, (low, usual, high) in enumerate(zip(*shapes, strict=True))
            if low != high
        }
        for name, shapes in profiles.items()
    }


def to_profiles(
    dynamic: DynamicShapes, usual: Mapping[str, tuple[int, ...]]
) -> dict[str, ShapeProfile]:
    """The smallest, usual and largest shape of each input.

    Args:
        dynamic: The open dimensions.
        usual: Every input's shape in the example.

    Example:
        >>> to_profiles({"x": {0: DynamicDim("batch", 1, 8, opt=4)}}, {"x": (2, 3)})
        {'x': ShapeProfile(min=(1, 3), opt=(4, 3), max=(8, 3))}
    """
    profiles = {}
    for name, shape in usual.items():
        fixed = [DynamicDim("_", size, size) for size in shape]
        dims = [dynamic.get(name, {}).get(axis, dim) for axis, dim in enumerate(fixed)]
        profiles[name] = ShapeProfile(
            tuple(dim.min for dim in dims),
            tuple(dim.opt or size for dim, size in zip(dims, shape, strict=True)),
            tuple(dim.max for dim in dims),
        )
    return profiles


def extreme_shapes(
    dynamic: DynamicShapes, usual: Mapping[str, tuple[int, ...]]
) -> Iterator[dict[str, tuple[int, ...]]]:
    """Each input's shape with every open dimension at its smallest, then at its largest size.

    Shapes that are the example's own are left out, and so is a size without a limit.

    Example:
        >>> list(extreme_shapes({"x": {0: DynamicDim("batch", 1, 8)}}, {"x": (2, 3)}))
        [{'x': (1, 3)}, {'x': (8, 3)}]
    """
    for bound in ("min", "max"):
        shapes = _resized(dynamic, usual, partial(_limit, bound))
        if shapes != dict(usual):
            yield shapes


def _resized(
    dynamic: DynamicShapes,
    usual: Mapping[str, tuple[int, ...]],
    choose: Callable[[DynamicDim, int], int],
) -> dict[str, tuple[int, ...]]:
    """The usual shapes with each open dimension at the size that is chosen for it."""
    return {
        name: tuple(
            choose(dim, size) if (dim := dynamic.get(name, {}).get(axis)) else size
            for axis, size in enumerate(shape)
        )
        for name, shape in usual.items()
    }


def _limit(bound: str, dim: DynamicDim, size: int) -> int:
    """The smallest or the largest size; the usual one where there is no such limit."""
    if dim.max is None and not dim.min:  # a config's axis, of which no range is known
        return size
    limit = getattr(dim, bound)
    return size if limit is None else int(limit)


def crossed_shapes(
    dynamic: DynamicShapes, usual: Mapping[str, tuple[int, ...]]
) -> Iterator[dict[str, tuple[int, ...]]]:
    """Each input's shape with open dimensions of several names at sizes of their own.

    First every name has another size, then each is alone at another one than the example's. An
    engine that exchanges height and width is right wherever both are equal.

    Example:
        >>> image = {"x": {0: DynamicDim("height", 4, 64), 1: DynamicDim("width", 4, 64)}}
        >>> list(crossed_shapes(image, {"x": (16, 16)}))
        [{'x': (31, 29)}, {'x': (31, 16)}, {'x': (16, 29)}]
    """
    named = {
        dim.name: (dim, usual[name][axis])
        for name, axes in dynamic.items()
        for axis, dim in axes.items()
    }
    if len(named) < 2:
        return
    chosen: dict[str, int] = {}
    for name, (dim, size) in named.items():
        # One after the other: a large range has many primes.
        others = chain(_primes(dim, size), (size + 1, dim.max or 0, size - 1, dim.min))
        taken = (*chosen.values(), size, 0)
        chosen[name] = next((n for n in others if dim.holds(n) and n not in taken), size)
    seen = [dict(usual)]
    for sizes in (chosen, *({name: size} for name, size in chosen.items())):
        shapes = shapes_at(dynamic, usual, sizes)
        if shapes not in seen:
            seen.append(shapes)
            yield shapes


def shapes_at(
    dynamic: DynamicShapes, usual: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """Each input's shape with open dimensions at the sizes given by name, all else as usual."""
    return _resized(dynamic, usual, lambda dim, size: sizes.get(dim.name, size))


def unlimited_sizes(
    dynamic: DynamicShapes, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    """The sizes that open dimensions without a largest size have in these shapes, by name."""
    dims = ((dim, shapes[name][n]) for name, axes in dynamic.items() for n, dim in axes.items())
    return {dim.name: size for dim, size in dims if dim.max is None}


def between_shapes(
    dynamic: DynamicShapes, usual: Mapping[str, tuple[int, ...]]
) -> Iterator[dict[str, tuple[int, ...]]]:
    """Each input's shape with every open dimension at an odd and at a prime size in its range.

    A size without a limit is taken up to twice the example's. What a model does at powers of two,
    and at the sizes of its example, it need not do at others.

    Example:
        >>> list(between_shapes({"x": {0: DynamicDim("batch", 1, 16)}}, {"x": (2, 3)}))
        [{'x': (9, 3)}, {'x': (7, 3)}]
    """
    seen = [dict(usual), *extreme_shapes(dynamic, usual)]
    for choose in (_odd, _prime):
        shapes = _resized(dynamic, usual, choose)
        if shapes not in seen:
            seen.append(shapes)
            yield shapes


def _middle(dim: DynamicDim, size: int) -> int:
    return (dim.min + (dim.max or 2 * size + 1)) // 2


def _odd(dim: DynamicDim, size: int) -> int:
    """The first odd size above the middle of the range."""
    odd = (_middle(dim, size) + 1) | 1
    return odd if dim.holds(odd) else size


def _prime(dim: DynamicDim, size: int) -> int:
    """The last prime size below the middle of the range, above 2 where there is one."""
    return next(_primes(dim, size), size)


def _primes(dim: DynamicDim, size: int) -> Iterator[int]:
    """The prime sizes below the middle of the range, from above."""
    for number in range(_middle(dim, size), max(dim.min, 2) - 1, -1):
        if all(number % other for other in range(2, int(number**0.5) + 1)):
            yield number


def normalise(
    dynamic: Mapping[str, Any] | None,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[str] = (),
) -> DynamicShapes:
    """Dynamic shapes in one form, checked against the inputs.

    Args:
        dynamic: Input name, or the name of a container of inputs, such as a cache, which
            share the dimension → axis → one of ``"batch"``, ``("batch", 1, 8)``,
            ``("batch", 1, 4, 8)`` (smallest, usual, largest), ``(1, 8)``, ``(1, 4, 8)``, True for
            any size, a ``torch.export.Dim``, a :class:`DynamicDim`, or None for a fixed axis. A
            list of axes opens each to any size.
        inputs: The model's inputs.
        outputs: Names that may stand among them and are ignored: callers who come from
            ``dynamic_axes`` list outputs too, and exporters find those by themselves.

    Raises:
        InputError: An input or an axis that does not exist, a range that is none, or one name
            with two ranges.
    """
    specs = {spec.name: spec for spec in inputs}
    given = dynamic or {}
    if not isinstance(given, Mapping):
        raise InputError(
            f"dynamic is {given!r}; expected the axes of each input",
            hint='write "batch", or {"x": {0: "batch"}}',
        )
    shapes = {
        own: _axes(_spec(own, specs), axes, name)
        for name, axes in given.items()
        for own in inputs_in(name, specs) or [name]
        if own in specs or own not in outputs
        if own == name or own not in given
    }
    return _agreed({name: axes for name, axes in shapes.items() if axes})


def _spec(name: str, specs: Mapping[str, TensorSpec]) -> TensorSpec:
    if name in specs:
        return specs[name]
    guess = nearest(name, specs)
    message = f"dynamic names '{name}', which is not an input; inputs: {', '.join(specs)}"
    raise InputError(message, hint=f"did you mean '{guess}'?" if guess else None)


def _axes(spec: TensorSpec, axes: Any, name: str) -> dict[int, DynamicDim]:
    """The open axes of one input.

    Args:
        spec: The input.
        axes: What the caller gave for it.
        name: Its name, or that of the container that the caller gave it for.
    """
    if axes is None:
        return {}
    if isinstance(axes, list):
        axes = dict.fromkeys(axes, True)
    if not isinstance(axes, Mapping):
        message = f"dynamic['{spec.name}'] is {axes!r}; wanted axes and names"
        raise InputError(message, hint=f'write {{"{spec.name}": {{0: "batch"}}}}')
    found = {_axis(spec, axis): value for axis, value in axes.items()}
    named = msgspec.structs.replace(spec, name=name)
    dims = {axis: _dim(named, axis, value) for axis, value in found.items()}
    return {axis: dim for axis, dim in dims.items() if dim is not None}


def _axis(spec: TensorSpec, axis: Any) -> int:
    rank = len(spec.dims or ())
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise InputError(
            f"dynamic['{spec.name}'] names axis {axis!r}; the input is {spec.describe()}"
        )
    return axis % rank


def _dim(spec: TensorSpec, axis: int, value: Any) -> DynamicDim | None:
    if value is None:
        return None
    if value is True:
        return DynamicDim(name_axis(spec.name, axis))
    if isinstance(value, DynamicDim):
        return _checked(value)
    if isinstance(value, str):
        return _checked(DynamicDim(value))
    if isinstance(value, tuple):
        return _checked(_from_tuple(spec, axis, value))
    return _from_torch(spec, axis, value)


def _from_tuple(spec: TensorSpec, axis: int, value: tuple[Any, ...]) -> DynamicDim:
    match value:
        case (str(name), *sizes):
            pass
        case sizes:
            name = name_axis(spec.name, axis)
    match sizes:
        case [int(low), int(high)]:
            return DynamicDim(name, low, high)
        case [int(low), int(usual), int(high)]:
            return DynamicDim(name, low, high, usual)
    raise _unreadable(spec, axis, value)


def _from_torch(spec: TensorSpec, axis: int, value: Any) -> DynamicDim | None:
    from torch.export import Dim

    if isinstance(value, Dim):
        return _checked(DynamicDim(value.__name__, max(value.min, 1), _finite(value.max)))
    if isinstance(value, type(Dim.AUTO)):
        if value.type == Dim.STATIC.type:
            return None
        limits = value.min or 1, _finite(value.max)
        return _checked(DynamicDim(name_axis(spec.name, axis), *limits))
    raise _unreadable(spec, axis, value)


def _finite(limit: Any) -> int | None:
    # torch writes "no limit" as a symbolic infinity.
    return limit if isinstance(limit, int) else None


def _unreadable(spec: TensorSpec, axis: int, value: Any) -> InputError:
    message = f"dynamic['{spec.name}'][{axis}] is {value!r}; wanted a name, or a name and sizes"
    return InputError(message, hint='write "batch" or ("batch", 1, 8)')


def _checked(dim: DynamicDim) -> DynamicDim:
    if not dim.name.isidentifier():
        message = f"'{dim.name}' cannot name a dimension"
        raise InputError(message, hint="use letters, digits and underscores")
    sizes = [size for size in (dim.min, dim.opt, dim.max) if size is not None]
    if sizes != sorted(sizes) or dim.min < 0:
        message = f"dimension '{dim.name}' has the sizes {sizes}; wanted smallest ≤ usual ≤ largest"
        raise InputError(message)
    return dim


def _agreed(shapes: DynamicShapes) -> DynamicShapes:
    """One range a name: a bare name takes the range that was given elsewhere."""
    known: dict[str, DynamicDim] = {}
    for dim in (dim for axes in shapes.values() for dim in axes.values()):
        first = known.setdefault(dim.name, dim)
        if first == DynamicDim(dim.name):
            known[dim.name] = dim
        elif dim not in (first, DynamicDim(dim.name)):
            found = [f"{one.min}…{one.max or 'any'}" for one in (first, dim)]
            message = f"dimension '{dim.name}' is given two ranges: {' and '.join(found)}"
            raise InputError(message, hint="give one range, or two names")
    return {
        name: {axis: known[dim.name] for axis, dim in axes.items()} for name, axes in shapes.items()
    }


def name_axis(name: str, axis: int) -> str:
    """Return the name of an open axis that nobody named: ``x_0``."""
    plain = "".join(char if char.isalnum() else "_" for char in name)
    return f"{plain}_{axis}" if plain.isidentifier() else f"dim_{plain}_{axis}"
