"""Example inputs and open dimensions, from whatever the caller gave of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from enginebay.errors import InputError, ModelSourceError, ParamsError
from enginebay.models.dynamic import from_profiles, name_axis, normalise
from enginebay.models.dynamic_option import read_dynamic
from enginebay.models.forward_arguments import required_parameters
from enginebay.params import format_dims, name_shapes, resolve_profiles
from enginebay.tensors import TensorSpec, generate_input, leaves, map_named, resize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from enginebay.models.dynamic import DynamicShapes
    from enginebay.models.recorded_calls import RecordedCalls
    from enginebay.models.signature import Signature
    from enginebay.models.sources import ModelSource
    from enginebay.params import ShapeProfile, Shapes


def example_inputs(
    args: Any,
    source: ModelSource,
    shapes: Shapes,
    names: Sequence[str] | None = None,
    *,
    below: Mapping[str, int] | None = None,
) -> Any:
    """The example inputs: as given, or made up where only their shapes are.

    Args:
        args: What the caller gave; a dict may hold specs to make up values for.
        source: The model, which may bring its own: they are stretched to the usual shapes.
        shapes: The usual shapes.
        names: What the caller calls the inputs, where that is not what the model calls them.
        below: By name, what made-up integers are less than; 2 for the others.

    Raises:
        InputError: There is nothing to go by, or the model's own inputs have other ranks.
    """
    if names and (shapes or isinstance(args, Mapping)):
        own = dict(zip(names, source.input_names, strict=False))
        below = {own.get(name, name): limit for name, limit in (below or {}).items()}
        shapes = {own.get(name, name): dims for name, dims in shapes.items()}
        if isinstance(args, Mapping):
            args = {own.get(name, name): value for name, value in args.items()}
    if args is None and source.example_inputs is not None:
        args = _stretched(source, shapes) if shapes else source.example_inputs
    if args is None:
        args = _specs_from_shapes(source, shapes)
    if not isinstance(args, Mapping):
        return args
    if "" in args or any(isinstance(value, TensorSpec) for value in args.values()):
        args = _generate_missing(args, source, below or {})
    return source.arguments(args)


def is_made_up(spec: TensorSpec, args: Any, source: ModelSource) -> bool:
    """True if an example input has a shape alone, and no values of the caller or the model."""
    if args is None:
        return source.example_inputs is None
    given = args.get(spec.name, args.get("")) if isinstance(args, Mapping) else args
    return isinstance(given, TensorSpec)


def _generate_missing(
    args: Mapping[str, Any], source: ModelSource, below: Mapping[str, int]
) -> dict[str, Any]:
    """Arrays in the place of specs, and names in the place of the only input's empty one."""
    names = source.input_names
    named = {names[0] if not name and len(names) == 1 else name: v for name, v in args.items()}
    # A file says which dtypes it takes; whoever types a shape need not repeat them.
    known = {spec.name: spec for spec in (source.ir.inputs if source.ir else ())}
    return {
        name: generate_input(
            known.get(name, TensorSpec(name, value.dtype, value.dims)),
            value,
            below=below.get(name, 2),
        )
        if isinstance(value, TensorSpec)
        else value
        for name, value in named.items()
    }


def shapes_of(args: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of example inputs by name, ``""`` where there is one without a name.

    Empty where there are none, or several without names: nobody knows yet what they are called.

    Example:
        >>> shapes_of({"x": TensorSpec("x", "float32", (1, 3, 64, 64))})
        {'x': (1, 3, 64, 64)}
    """
    if isinstance(args, tuple | list):
        args = args[0] if len(args) == 1 else None
    named = args if isinstance(args, Mapping) else {"": args}
    dims = {
        name: value.dims if isinstance(value, TensorSpec) else getattr(value, "shape", None)
        for name, value in named.items()
    }
    return {str(name): tuple(map(int, sizes)) for name, sizes in dims.items() if sizes is not None}


def _stretched(source: ModelSource, shapes: Shapes) -> Any:
    """The model's own example inputs at the shapes that were requested."""
    args = source.example_inputs
    if isinstance(args, Mapping):
        # A forward may take more than the model is deployed with: these are its inputs.
        return dict(_at_shapes(args, args, shapes))
    values = args if isinstance(args, tuple | list) else (args,)
    names = source.input_names
    given = dict(zip(names, values, strict=False))
    rest = values[len(given) :]
    return (*(value for _, value in _at_shapes(given, names, shapes)), *rest)


def _at_shapes(
    values: Mapping[str, Any], names: Iterable[str], shapes: Shapes
) -> Iterator[tuple[str, Any]]:
    """Each argument by name, the tensors in it at their shapes."""
    inside = [path for name, value in values.items() for path, _ in leaves(value, name)]
    wanted = name_shapes(shapes, dict.fromkeys((*names, *inside)))
    for name, value in values.items():
        yield name, map_named(lambda path, leaf: _at(leaf, wanted.get(path)), value, name)


def _at(value: Any, dims: tuple[int | None, ...] | None) -> Any:
    if dims is None or not hasattr(value, "shape"):
        return value
    if len(dims) != len(value.shape):
        raise InputError(f"an input of shape {tuple(value.shape)} cannot take the shape {dims}")
    sizes = zip(value.shape, dims, strict=True)
    return resize(value, [int(own) if dim is None else dim for own, dim in sizes])


def _specs_from_shapes(source: ModelSource, shapes: Shapes) -> dict[str, TensorSpec]:
    from enginebay.models.function_models import FunctionModel  # imports torch

    known = source.ir.inputs if source.ir else ()
    if known and all(spec.is_static for spec in known):
        return {spec.name: spec for spec in known}
    if source.ir is not None and not shapes:
        kept = source.ir.example_shapes
        shapes = {spec.name: kept[spec.name] for spec in known if spec.name in kept}
    if not shapes:
        if isinstance(source.model, FunctionModel):
            raise _neither_factory_nor_inputs(source)
        raise InputError(
            f"'{source.description}' comes without example inputs",
            hint="pass --input NAME=1x3x224x224, or let the model's callable return "
            "(model, inputs)",
        )
    dtypes = {spec.name: spec.dtype for spec in known}
    return {
        name: TensorSpec(name, dtypes.get(name, "float32"), dims)  # type: ignore[arg-type]  # random_inputs refuses open ones
        for name, dims in name_shapes(shapes, source.input_names).items()
    }


def _neither_factory_nor_inputs(source: ModelSource) -> ModelSourceError:
    parameters = required_parameters(source.module.forward)
    message = f"'{source.description}' cannot be called without arguments"
    return ModelSourceError(
        f"{message}: it wants {', '.join(parameters)}",
        hint="name a function without arguments that returns the model; where the function is the "
        f"model itself, pass --input {parameters[0]}=1x3x224x224",
    )


def open_dimensions(
    dynamic: Mapping[str, Any] | Sequence[str] | None,
    signature: Signature,
    input_shapes: Shapes,
    min_shapes: Shapes,
    max_shapes: Shapes,
    seen: RecordedCalls | None,
) -> DynamicShapes:
    """The open dimensions: as given, or where the smallest and the largest shapes differ.

    Where no such shapes are given, a ``?`` in the usual ones is open, and so are axes that differed
    between recorded calls.

    Raises:
        InputError: An input or an axis that does not exist.
        ParamsError: The shapes do not fit the example inputs.
    """
    outputs = [spec.name for spec in signature.outputs]
    if isinstance(dynamic, Sequence):
        dynamic = read_dynamic(dynamic, signature.inputs)
    elif dynamic is None and not (min_shapes or max_shapes):
        dynamic = _unsized_axes(signature, input_shapes)
    if dynamic is not None or not (min_shapes or max_shapes):
        given = normalise(dynamic, signature.inputs, outputs)
        names = [spec.name for spec in signature.inputs]
        return given if seen is None else seen.opened(names, given, dynamic or {})
    usual = {spec.name: _sizes(spec) for spec in signature.inputs}
    resolved = range_profiles(usual, min_shapes, max_shapes)
    profiles = {name: (p.min, p.opt, p.max) for name, p in resolved.items()}
    # No size is None: the usual ones are all known.
    dynamic = from_profiles(profiles, (*min_shapes, *max_shapes))  # type: ignore[arg-type]  # see above
    return normalise(dynamic, signature.inputs, outputs)


def _unsized_axes(signature: Signature, input_shapes: Shapes) -> dict[str, dict[int, Any]] | None:
    """The axes that have a ``?`` in the usual shapes; None for none.

    The same axis of several inputs is one dimension where the example has one size there.

    Raises:
        ParamsError: A size there is not the example's.
    """
    sizes = {spec.name: _sizes(spec) for spec in signature.inputs}
    opened: dict[str, dict[int, Any]] = {}
    shared: dict[tuple[int, int | None], str] = {}
    for name, dims in name_shapes(input_shapes, sizes).items():
        if len(dims) != len(sizes[name]) or any(
            dim not in (None, size) for dim, size in zip(dims, sizes[name], strict=True)
        ):
            raise ParamsError(
                f"input '{name}' is {format_dims(sizes[name])} in the example, and "
                f"{format_dims(dims)} in input_shapes",
                hint="leave one of them out",
            )
        for axis, (dim, size) in enumerate(zip(dims, sizes[name], strict=True)):
            if dim is None:
                dim_name = shared.setdefault((axis, size), name_axis(name, axis))
                opened.setdefault(name, {})[axis] = dim_name
    return opened or None


def range_profiles(
    usual: Shapes, min_shapes: Shapes, max_shapes: Shapes
) -> dict[str, ShapeProfile]:
    """Every input's profile, where the smallest and the largest shapes may leave some out.

    Raises:
        ParamsError: The shapes do not fit the usual ones.
    """
    return resolve_profiles(
        usual,
        {**usual, **name_shapes(min_shapes, usual)},
        {**usual, **name_shapes(max_shapes, usual)},
    )


def _sizes(spec: TensorSpec) -> tuple[int | None, ...]:
    """The sizes of an example input, which are all known."""
    return tuple(int(dim) for dim in spec.dims or ())
