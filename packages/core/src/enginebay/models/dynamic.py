"""Open (dynamic) dimensions of a model's inputs, their ranges of sizes, and shapes within them."""

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
    """One open dimension; dimensions with the same name have the same size.

    Attributes:
        name: A Python identifier.
        min: The smallest size.
        max: The largest size; None if unlimited.
        opt: The size to tune for; None if not specified.
    """

    name: str
    min: int = 1
    max: int | None = None
    opt: int | None = None

    def holds(self, size: int) -> bool:
        """Return True if the size is in the range."""
        return self.min <= size and (self.max is None or size <= self.max)


#: Input name → axis → dimension.
DynamicShapes: TypeAlias = dict[str, dict[int, DynamicDim]]


def from_profiles(
    profiles: Mapping[str, tuple[Shape, Shape, Shape]], containers: Iterable[str] = ()
) -> DynamicShapes:
    """Return the open dimensions of shape profiles: those whose smallest and largest size differ.

    Args:
        profiles: Input name → smallest, usual and largest shape.
        containers: Names of containers of inputs, such as a cache; the inputs in a container share
            their dimensions.

    Example:
        >>> from_profiles({"x": ((1, 3), (4, 3), (8, 3))})
        {'x': {0: DynamicDim(name='x_0', min=1, max=8, opt=4)}}
    """
    owners = {name: owner for owner in containers for name in inputs_in(owner, profiles)}
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
    """Return the smallest, usual and largest shape of each input.

    Args:
        dynamic: The open dimensions.
        usual: Input name → shape in the example.

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
    """Yield the inputs' shapes with all open dimensions at their smallest, then largest size.

    A dimension without that limit keeps its usual size. The usual shapes are not yielded.

    Example:
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
    """Return the usual shapes with a chosen size for each open dimension."""
    return {
        name: tuple(
            choose(dim, size) if (dim := dynamic.get(name, {}).get(axis)) else size
            for axis, size in enumerate(shape)
        )
        for name, shape in usual.items()
    }


def _choose_limit(bound: str, dim: DynamicDim, size: int) -> int:
    """Return the smallest or largest size of a dimension; the usual size if unlimited."""
    if dim.max is None and not dim.min:  # an axis from a config, whose range is unknown
        return size
    limit = getattr(dim, bound)
    return size if limit is None else int(limit)


def crossed_shapes(
    dynamic: DynamicShapes, usual: Mapping[str, tuple[int, ...]]
) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield the inputs' shapes with a different size for each name of an open dimension.

    First all dimensions differ from the example and from each other, then one at a time. This
    finds an engine that swaps height and width, which is right if both are equal.

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
        # Lazily, since a large range has many primes.
        candidates = chain(_prime_sizes(dim, size), (size + 1, dim.max or 0, size - 1, dim.min))
        taken = (*chosen.values(), size, 0)
        chosen[name] = next((n for n in candidates if dim.holds(n) and n not in taken), size)
    seen = [dict(usual)]
    for sizes in (chosen, *({name: size} for name, size in chosen.items())):
        shapes = shapes_at(dynamic, usual, sizes)
        if shapes not in seen:
            seen.append(shapes)
            yield shapes


def shapes_at(
    dynamic: DynamicShapes, usual: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """Return the inputs' shapes with these sizes of open dimensions; other sizes as usual."""
    return _resize_shapes(dynamic, usual, lambda dim, size: sizes.get(dim.name, size))


def unlimited_sizes(
    dynamic: DynamicShapes, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    """Return the sizes in these shapes of the open dimensions without a largest size, by name."""
    dims = ((dim, shapes[name][n]) for name, axes in dynamic.items() for n, dim in axes.items())
    return {dim.name: size for dim, size in dims if dim.max is None}


def between_shapes(
    dynamic: DynamicShapes, usual: Mapping[str, tuple[int, ...]]
) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield the inputs' shapes with all open dimensions at odd, then at prime sizes.

    The sizes are near the middle of the range; without a limit the range ends at twice the
    example's size. A model may fail at sizes that are not powers of two or not the example's.

    Example:
        >>> list(between_shapes({"x": {0: DynamicDim("batch", 1, 16)}}, {"x": (2, 3)}))
        [{'x': (9, 3)}, {'x': (7, 3)}]
    """
    seen = [dict(usual), *extreme_shapes(dynamic, usual)]
    for choose in (_choose_odd_size, _choose_prime_size):
        shapes = _resize_shapes(dynamic, usual, choose)
        if shapes not in seen:
            seen.append(shapes)
            yield shapes


def _middle_size(dim: DynamicDim, size: int) -> int:
    return (dim.min + (dim.max or 2 * size + 1)) // 2


def _choose_odd_size(dim: DynamicDim, size: int) -> int:
    """Return the first odd size above the middle of the range."""
    odd = (_middle_size(dim, size) + 1) | 1
    return odd if dim.holds(odd) else size


def _choose_prime_size(dim: DynamicDim, size: int) -> int:
    """Return the largest prime up to the middle of the range; the usual size if there is none."""
    return next(_prime_sizes(dim, size), size)


def _prime_sizes(dim: DynamicDim, size: int) -> Iterator[int]:
    """Yield the prime sizes from the middle of the range downwards."""
    for number in range(_middle_size(dim, size), max(dim.min, 2) - 1, -1):
        if all(number % other for other in range(2, int(number**0.5) + 1)):
            yield number


def normalise(
    dynamic: Mapping[str, Any] | None,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[str] = (),
) -> DynamicShapes:
    """Convert dynamic shapes to one form, and check them against the inputs.

    Args:
        dynamic: Name of an input, or of a container of inputs such as a cache, whose inputs share
            the dimension → axis → one of ``"batch"``, ``("batch", 1, 8)``, ``("batch", 1, 4, 8)``
            (smallest, usual, largest), ``(1, 8)``, ``(1, 4, 8)``, True for any size, a
            ``torch.export.Dim``, a :class:`DynamicDim`, or None for a fixed axis. A list of axes
            opens each to any size.
        inputs: The model's inputs.
        outputs: Names of outputs, which are ignored in ``dynamic``: ``dynamic_axes`` of torch.onnx
            lists outputs too, but exporters find their open axes without them.

    Raises:
        InputError: An input or axis does not exist, a range is invalid, or one name has two ranges.
    """
    specs = {spec.name: spec for spec in inputs}
    requested = dynamic or {}
    if not isinstance(requested, Mapping):
        raise InputError(
            f"dynamic: expected the axes of each input, found {requested!r}",
            hint='write "batch", or {"x": {0: "batch"}}',
        )
    shapes = {
        input_name: _read_axes(_find_spec(input_name, specs), axes, name)
        for name, axes in requested.items()
        for input_name in inputs_in(name, specs) or [name]
        if input_name in specs or input_name not in outputs
        if input_name == name or input_name not in requested  # an input's own entry wins
    }
    return _unify_ranges({name: axes for name, axes in shapes.items() if axes})


def _find_spec(name: str, specs: Mapping[str, TensorSpec]) -> TensorSpec:
    if name in specs:
        return specs[name]
    guess = nearest(name, specs)
    message = f"dynamic: unknown input '{name}'; available: {', '.join(specs)}"
    raise InputError(message, hint=f"did you mean '{guess}'?" if guess else None)


def _read_axes(spec: TensorSpec, axes: Any, name: str) -> dict[int, DynamicDim]:
    """Return the open axes of one input.

    Args:
        spec: The input.
        axes: The caller's value in ``dynamic``.
        name: The caller's key in ``dynamic``: the input, or a container with it.
    """
    if axes is None:
        return {}
    if isinstance(axes, list):
        axes = dict.fromkeys(axes, True)
    if not isinstance(axes, Mapping):
        message = f"dynamic['{spec.name}']: expected axes and names, found {axes!r}"
        raise InputError(message, hint=f'write {{"{spec.name}": {{0: "batch"}}}}')
    values = {_check_axis(spec, axis): value for axis, value in axes.items()}
    named = msgspec.structs.replace(spec, name=name)
    dims = {axis: _read_dim(named, axis, value) for axis, value in values.items()}
    return {axis: dim for axis, dim in dims.items() if dim is not None}


def _check_axis(spec: TensorSpec, axis: Any) -> int:
    rank = len(spec.dims or ())
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise InputError(
            f"dynamic['{spec.name}']: unknown axis {axis!r} of the input {spec.describe()}"
        )
    return axis % rank


def _read_dim(spec: TensorSpec, axis: int, value: Any) -> DynamicDim | None:
    if value is None:
        return None
    if value is True:
        return DynamicDim(name_axis(spec.name, axis))
    if isinstance(value, DynamicDim):
        return _check_dim(value)
    if isinstance(value, str):
        return _check_dim(DynamicDim(value))
    if isinstance(value, tuple):
        return _check_dim(_parse_tuple(spec, axis, value))
    return _convert_torch_dim(spec, axis, value)


def _parse_tuple(spec: TensorSpec, axis: int, value: tuple[Any, ...]) -> DynamicDim:
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
    raise _invalid_dim_error(spec, axis, value)


def _convert_torch_dim(spec: TensorSpec, axis: int, value: Any) -> DynamicDim | None:
    from torch.export import Dim

    if isinstance(value, Dim):
        return _check_dim(DynamicDim(value.__name__, max(value.min, 1), _finite_limit(value.max)))
    if isinstance(value, type(Dim.AUTO)):
        if value.type == Dim.STATIC.type:
            return None
        limits = value.min or 1, _finite_limit(value.max)
        return _check_dim(DynamicDim(name_axis(spec.name, axis), *limits))
    raise _invalid_dim_error(spec, axis, value)


def _finite_limit(limit: Any) -> int | None:
    # torch writes "no limit" as a symbolic infinity.
    return limit if isinstance(limit, int) else None


def _invalid_dim_error(spec: TensorSpec, axis: int, value: Any) -> InputError:
    message = (
        f"dynamic['{spec.name}'][{axis}]: expected a name, or a name and sizes, found {value!r}"
    )
    return InputError(message, hint='write "batch" or ("batch", 1, 8)')


def _check_dim(dim: DynamicDim) -> DynamicDim:
    if not dim.name.isidentifier():
        message = f"'{dim.name}' is not a valid name of a dimension"
        raise InputError(message, hint="use letters, digits and underscores")
    sizes = [size for size in (dim.min, dim.opt, dim.max) if size is not None]
    if sizes != sorted(sizes) or dim.min < 0:
        message = f"dimension '{dim.name}': expected smallest ≤ usual ≤ largest, found {sizes}"
        raise InputError(message)
    return dim


def _unify_ranges(shapes: DynamicShapes) -> DynamicShapes:
    """Give dimensions of one name the same range: a bare name takes the range of another."""
    known: dict[str, DynamicDim] = {}
    for dim in (dim for axes in shapes.values() for dim in axes.values()):
        first = known.setdefault(dim.name, dim)
        if first == DynamicDim(dim.name):
            known[dim.name] = dim
        elif dim not in (first, DynamicDim(dim.name)):
            ranges = [f"{item.min}…{item.max or 'any'}" for item in (first, dim)]
            message = f"dimension '{dim.name}' has two ranges: {' and '.join(ranges)}"
            raise InputError(message, hint="write one range, or two names")
    return {
        name: {axis: known[dim.name] for axis, dim in axes.items()} for name, axes in shapes.items()
    }


def name_axis(name: str, axis: int) -> str:
    """Return the default name of an open axis: ``x_0``."""
    plain = "".join(char if char.isalnum() else "_" for char in name)
    return f"{plain}_{axis}" if plain.isidentifier() else f"dim_{plain}_{axis}"
