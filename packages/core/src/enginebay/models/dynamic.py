"""Dynamic dimensions of a model's inputs, each with a range of sizes."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from enginebay.errors import InputError, did_you_mean
from enginebay.params import DynamicDim, DynamicShapes, ShapeProfile, add_sizes, inputs_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from enginebay.tensors import TensorSpec

Shape: TypeAlias = Sequence[int]

#: Of fewer different sizes, a sum may be a coincidence.
_FEW_SIZES = 3


def from_profiles(
    profiles: Mapping[str, tuple[Shape, Shape, Shape]], containers: Iterable[str] = ()
) -> DynamicShapes:
    """Return a dynamic dimension for each axis whose smallest and largest sizes differ.

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
        dynamic: The dynamic dimensions.
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


def file_dimensions(
    inputs: Iterable[TensorSpec], profiles: Mapping[str, ShapeProfile]
) -> DynamicShapes:
    """Return the dimensions that an ONNX file leaves open, with the limits of the profiles.

    Exporters name the sizes of each input apart, so axes of different inputs with the same usual
    size are one dimension. A size may be a sum of others, ``past + 1``.

    Args:
        inputs: The file's inputs; an open size has a name.
        profiles: Input name → smallest, usual and largest shape; equal sizes are no limits.

    Example:
        >>> from enginebay.tensors import TensorSpec
        >>> specs = [TensorSpec("x", "float32", ("n", 3)), TensorSpec("y", "float32", ("m", 3))]
        >>> shape = ShapeProfile((2, 3), (2, 3), (2, 3))
        >>> file_dimensions(specs, {"x": shape, "y": shape})["y"]
        {0: DynamicDim(name='n', min=1, max=None, opt=None)}
    """
    limits = from_profiles({name: (p.min, p.opt, p.max) for name, p in profiles.items()})  # type: ignore[misc]  # no size is None
    opened: DynamicShapes = {}
    names: dict[str, str] = {}
    shared: dict[tuple[int, int | None], str] = {}
    sums: dict[tuple[str, int], str] = {}
    for spec in inputs:
        for axis, size in enumerate(spec.dims or ()):
            own = re.sub(r"[.:-]|(?<=\w)\s+(?=\w)", "_", str(size)).replace(" ", "")
            if "+" in own:
                sums[spec.name, axis] = own
            elif own.isidentifier():
                usual = profiles[spec.name].opt[axis]
                name = names.setdefault(own, shared.setdefault((axis, usual), own))
                limit = limits.get(spec.name, {}).get(axis, DynamicDim(name))
                dim = msgspec.structs.replace(limit, name=name)
                opened.setdefault(spec.name, {})[axis] = dim
    for (spec_name, axis), text in sums.items():
        terms = [names.get(term, term) for term in text.split("+")]
        if all(term.isdecimal() or term in names.values() for term in terms):
            opened.setdefault(spec_name, {})[axis] = DynamicDim("+".join(terms))
    return _unify_ranges(opened)


def normalise(
    dynamic: Mapping[str, object] | None,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[str] = (),
) -> DynamicShapes:
    """Convert dynamic dimensions to :class:`DynamicDim`, and check them against the inputs.

    Args:
        dynamic: Input name → axis → dimension. A dimension is a name (``"batch"``); smallest and
            largest size (``(1, 8)``); smallest, usual and largest size (``(1, 4, 8)``); a name with
            smallest and largest size (``("batch", 1, 8)``); True for any size; a
            ``torch.export.Dim``; a :class:`DynamicDim`; or None for a fixed axis. A list of axes
            allows any size of each axis. The name of a container of inputs, such as a cache, stands
            for all inputs in the container, which then share the dimension.
        inputs: The model's inputs.
        outputs: Names of the model's outputs. Entries of ``dynamic`` with these names are ignored:
            ``dynamic_axes`` of torch.onnx has such entries, but exporters find the dynamic axes of
            outputs themselves.

    Raises:
        InputError: An input or axis does not exist, a range is invalid, or one name has two ranges.
    """
    specs = {spec.name: spec for spec in inputs}
    requested = dynamic or {}
    if not isinstance(requested, Mapping):
        raise InputError(
            f"invalid 'dynamic': expected the dynamic axes of each input, found {requested!r}",
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
    message = f"dynamic: unknown input '{name}'; available: {', '.join(specs)}"
    raise InputError(message, hint=did_you_mean(name, specs))


def _read_axes(spec: TensorSpec, axes: object, name: str) -> dict[int, DynamicDim]:
    """Return the dynamic axes of an input; ``axes`` is the list or dict that the caller passed."""
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


def _check_axis(spec: TensorSpec, axis: object) -> int:
    rank = len(spec.dims or ())
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise InputError(
            f"dynamic['{spec.name}']: unknown axis {axis!r} of the input {spec.describe()}"
        )
    # Negative axes count from the end, as in torch.
    return axis % rank


def _read_dim(spec: TensorSpec, axis: int, value: object) -> DynamicDim | None:
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


def _parse_tuple(spec: TensorSpec, axis: int, value: tuple[object, ...]) -> DynamicDim:
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


def _convert_torch_dim(spec: TensorSpec, axis: int, value: object) -> DynamicDim | None:
    from torch.export import Dim

    if isinstance(value, Dim):
        # torch's Dim has a minimum of 0 by default, every other form 1.
        return _check_dim(DynamicDim(value.__name__, max(value.min, 1), _finite_limit(value.max)))
    if isinstance(value, type(Dim.AUTO)):
        if value.type == Dim.STATIC.type:
            return None
        limits = value.min or 1, _finite_limit(value.max)
        return _check_dim(DynamicDim(name_axis(spec.name, axis), *limits))
    raise _invalid_dim_error(spec, axis, value)


def _finite_limit(limit: object) -> int | None:
    # torch writes "no limit" as a symbolic infinity.
    return limit if isinstance(limit, int) else None


def _invalid_dim_error(spec: TensorSpec, axis: int, value: object) -> InputError:
    message = (
        f"dynamic['{spec.name}'][{axis}]: expected a name, or a name and sizes, found {value!r}"
    )
    return InputError(message, hint='write "batch" or ("batch", 1, 8)')


def _check_dim(dim: DynamicDim) -> DynamicDim:
    first, *others = dim.name.split("+")
    if not first.isidentifier() or not all(x.isidentifier() or x.isdecimal() for x in others):
        message = f"'{dim.name}' is not a valid name of a dimension"
        raise InputError(message, hint="use letters, digits and underscores")
    sizes = [size for size in (dim.min, dim.opt, dim.max) if size is not None]
    if sizes != sorted(sizes) or dim.min < 0:
        message = f"dimension '{dim.name}': expected smallest ≤ usual ≤ largest, found {sizes}"
        raise InputError(message)
    return dim


def _unify_ranges(shapes: DynamicShapes) -> DynamicShapes:
    """Return ``shapes``, in which all dimensions of the same name have the same range.

    A dimension without a range gets the range of another one with its name. Raise InputError if two
    dimensions with the same name have different ranges.
    """
    known: dict[str, DynamicDim] = {}
    for dim in (dim for axes in shapes.values() for dim in axes.values()):
        # A name without a range equals DynamicDim(name).
        first = known.setdefault(dim.name, dim)
        if first == DynamicDim(dim.name):
            known[dim.name] = dim
        elif dim not in (first, DynamicDim(dim.name)):
            ranges = [f"{item.min}…{item.max or 'any'}" for item in (first, dim)]
            message = f"dimension '{dim.name}' has two different ranges: {' and '.join(ranges)}"
            raise InputError(
                message,
                hint="write the same range twice, or use a different name for each dimension",
            )
    known |= {name: _sum_ranges(dim, known) for name, dim in known.items() if dim.is_sum}
    return {
        name: {axis: known[dim.name] for axis, dim in axes.items()} for name, axes in shapes.items()
    }


def _sum_ranges(dim: DynamicDim, known: Mapping[str, DynamicDim]) -> DynamicDim:
    """Return a sum of dimensions with the range that follows from its terms."""
    terms = [
        DynamicDim(term, int(term), int(term)) if term.isdecimal() else known.get(term)
        for term in dim.name.split("+")
    ]
    found = [term for term in terms if term is not None]
    if len(found) < len(terms):
        name = next(t for t, d in zip(dim.name.split("+"), terms, strict=True) if d is None)
        raise InputError(
            f"dimension '{dim.name}': there is no dimension '{name}'",
            hint=f"name it: --dynamic INPUT:AXIS={name}",
        )
    largest = [term.max for term in found]
    limit = None if None in largest else sum(size for size in largest if size is not None)
    result = DynamicDim(dim.name, sum(term.min for term in found), limit)
    if dim not in (DynamicDim(dim.name), result):
        raise InputError(
            f"dimension '{dim.name}' has a range, but its size is a sum",
            hint="give the ranges to the dimensions of the sum",
        )
    return result


def name_sums(
    dynamic: DynamicShapes, sizes: Mapping[str, Sequence[int]], fixed: Collection[str] = ()
) -> DynamicShapes:
    """Return the dimensions, in which those that are always a sum of others are that sum.

    Args:
        dynamic: The dynamic dimensions.
        sizes: Dimension name → its size in each recorded call.
        fixed: Names of dimensions that stay as they are.

    Example:
        >>> dims = {"x": {0: DynamicDim("a"), 1: DynamicDim("b"), 2: DynamicDim("c")}}
        >>> name_sums(dims, {"a": (1, 2, 1), "b": (4, 4, 6), "c": (5, 6, 7)})["x"][2].name
        'a+b'
    """
    free = dict(sizes)
    sums: dict[str, str] = {}
    # The largest first: a sum is larger than its terms.
    for name, values in sorted(sizes.items(), key=lambda item: -sum(item[1])):
        count = len({*values})
        if name in fixed or count < _FEW_SIZES:
            continue
        others = {other: free[other] for other in free if other != name}
        # A fixed difference is a coincidence more easily than a sum of two.
        text = _find_gap(values, others) if count > _FEW_SIZES else ""
        if text := text or _find_pair(values, others):
            sums[name] = text
            del free[name]
    known = {dim.name: dim for axes in dynamic.values() for dim in axes.values()}
    renamed = {name: _sum_ranges(DynamicDim(text), known) for name, text in sums.items()}
    return {
        name: {axis: renamed.get(dim.name, dim) for axis, dim in axes.items()}
        for name, axes in dynamic.items()
    }


def _find_gap(values: Sequence[int], others: Mapping[str, Sequence[int]]) -> str:
    """Return a dimension that is always smaller by one number, as a sum: ``past+1``; else ""."""
    for name, sizes in others.items():
        gaps = {*map(operator.sub, values, sizes)}
        if len(gaps) == 1 and (gap := gaps.pop()) > 0:
            return f"{name}+{gap}"
    return ""


def _find_pair(values: Sequence[int], others: Mapping[str, Sequence[int]]) -> str:
    """Return two dimensions that always add up to the values: ``past+tokens``; else ""."""
    for first, second in combinations(others, 2):
        if [*map(operator.add, others[first], others[second])] == [*values]:
            return f"{first}+{second}"
    return ""


def check_sums(dynamic: DynamicShapes, shapes: Mapping[str, Sequence[int]]) -> None:
    """Raise InputError if a size in the example is not the sum that its dimension says."""
    dims = {dim.name: shapes[n][axis] for n, axes in dynamic.items() for axis, dim in axes.items()}
    for name, size in dims.items():
        expected = add_sizes(name, dims)
        if expected not in (None, size):
            raise InputError(
                f"dimension '{name}' has size {size} in the example, but the sum of its terms is "
                f"{expected}",
                hint="pass an example in which the sizes add up",
            )


def name_axis(name: str, axis: int) -> str:
    """Return the default name of a dynamic axis: ``x_0`` for axis 0 of input ``x``."""
    # Names of inputs may contain dots, but exporters require identifiers.
    plain = "".join(char if char.isalnum() else "_" for char in name)
    return f"{plain}_{axis}" if plain.isidentifier() else f"dim_{plain}_{axis}"
