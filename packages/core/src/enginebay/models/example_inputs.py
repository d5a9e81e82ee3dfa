"""Example inputs and dynamic dimensions, read from the caller's arrays, specs and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from enginebay.errors import InputError, ModelSourceError, ParamsError
from enginebay.models.dynamic import from_profiles, name_axis, normalise
from enginebay.models.dynamic_option import parse_dynamic
from enginebay.params import format_dims, name_shapes, resolve_profiles
from enginebay.sources import (
    describe_script_inputs,
    forward_parameters,
    no_example_error,
    required_parameters,
)
from enginebay.tensors import TensorSpec, generate_input, leaves, map_named, resize, suggest_inputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from enginebay.models.recorded_calls import RecordedCalls
    from enginebay.models.signature import Signature
    from enginebay.params import DynamicShapes, ShapeProfile, Shapes
    from enginebay.sources import ModelSource


def example_inputs(
    args: object,
    source: ModelSource,
    shapes: Shapes,
    names: Sequence[str] | None = None,
    *,
    below: Mapping[str, int] | None = None,
) -> object:
    """Return the example inputs of the caller or of the model, or generated arrays.

    Args:
        args: The caller's example; a dict may contain specs, for which values are generated.
        source: The model. Its own example inputs, if any, are resized to ``shapes``.
        shapes: Input name → requested shape.
        names: The caller's names of the inputs, if they differ from the model's.
        below: Input name → exclusive bound of generated integers (default: 2).

    Raises:
        InputError: There is neither an example nor a shape, or a shape has another rank than the
            model's own example.
    """
    if names and (shapes or isinstance(args, Mapping)):
        # Not strict: the signature reports a wrong number of names later.
        own_names = dict(zip(names, source.input_names, strict=False))
        below = {own_names.get(name, name): limit for name, limit in (below or {}).items()}
        shapes = {own_names.get(name, name): dims for name, dims in shapes.items()}
        if isinstance(args, Mapping):
            args = {own_names.get(name, name): value for name, value in args.items()}
    if args is None and source.example_inputs is not None:
        args = _resize_own_example(source, shapes) if shapes else source.example_inputs
    if args is None:
        args = _specs_from_shapes(source, shapes)
    if not isinstance(args, Mapping):
        return args
    if "" in args or any(isinstance(value, TensorSpec) for value in args.values()):
        args = _generate_missing(args, source, below or {})
    return source.arguments(args)


def is_generated(spec: TensorSpec, args: object, source: ModelSource) -> bool:
    """Return True if Enginebay generated the values of an example input."""
    if args is None:
        return source.example_inputs is None
    value = args.get(spec.name, args.get("")) if isinstance(args, Mapping) else args
    return isinstance(value, TensorSpec)


def _generate_missing(
    args: Mapping[str, object], source: ModelSource, below: Mapping[str, int]
) -> dict[str, object]:
    """Return ``args`` with a generated array in place of each spec.

    An empty name is replaced by the name of the model's only input.
    """
    names = source.required_inputs or source.input_names
    named = {names[0] if not name and len(names) == 1 else name: v for name, v in args.items()}
    # The dtypes in the model's file win: users who type a shape need not repeat them.
    known = {spec.name: spec for spec in (source.ir.inputs if source.ir else ())}
    if not known:  # TorchScript records at least which parameters are numbers
        specs = describe_script_inputs(source.module)
        known = {spec.name: spec for spec in specs if spec.dims == ()}
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


def shapes_of(args: object) -> dict[str, tuple[int, ...]]:
    """Return the shapes of example inputs by name; an input without a name has the name ``""``.

    The result is empty if several inputs have no names: only the model knows their names.

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


def _resize_own_example(source: ModelSource, shapes: Shapes) -> object:
    args = source.example_inputs
    if isinstance(args, Mapping):
        # Not all parameters of forward: the keys of the example are the inputs.
        return dict(_resize_arguments(args, args, shapes))
    values = args if isinstance(args, tuple | list) else (args,)
    names = source.input_names
    # forward may have more parameters than the example, and fewer names than its *args.
    named = dict(zip(names, values, strict=False))
    rest = values[len(named) :]
    return (*(value for _, value in _resize_arguments(named, names, shapes)), *rest)


def _resize_arguments(
    values: Mapping[str, object], names: Iterable[str], shapes: Shapes
) -> Iterator[tuple[str, object]]:
    paths = [path for name, value in values.items() for path, _ in leaves(value, name)]
    resized = name_shapes(shapes, dict.fromkeys((*names, *paths)))
    for name, value in values.items():
        yield name, map_named(lambda path, leaf: _resize_leaf(leaf, resized.get(path)), value, name)


def _resize_leaf(value: Any, dims: tuple[int | None, ...] | None) -> object:
    if dims is None or not hasattr(value, "shape"):
        return value
    if len(dims) != len(value.shape):
        raise InputError(f"an input of shape {tuple(value.shape)} cannot be resized to {dims}")
    sizes = zip(value.shape, dims, strict=True)
    return resize(value, [int(size) if dim is None else dim for size, dim in sizes])


def _specs_from_shapes(source: ModelSource, shapes: Shapes) -> dict[str, TensorSpec]:
    from enginebay.sources import FunctionModel

    known = source.ir.inputs if source.ir else ()
    if known and all(spec.is_static for spec in known):
        return {spec.name: spec for spec in known}
    if source.ir is not None and not shapes:
        # A file that Enginebay exported records the shapes of its example.
        stored = source.ir.example_shapes
        shapes = {spec.name: stored[spec.name] for spec in known if spec.name in stored}
    if not shapes:
        if isinstance(source.model, FunctionModel):
            raise _missing_arguments_error(source)
        message = f"'{source.description}' has no example inputs"
        if known:
            described = ", ".join(spec.describe() for spec in known)
            raise InputError(f"{message}; it takes {described}", hint=suggest_inputs(known))
        if source.ir is not None:  # TorchScript of another tool, which records no sizes
            specs = describe_script_inputs(source.module)
            raise InputError(
                f"{message}; it takes {forward_parameters(source.module)}",
                hint=f"pass them with your own sizes: {suggest_inputs(specs)}",
            )
        raise no_example_error(source.description)
    dtypes = {spec.name: spec.dtype for spec in known}
    return {
        name: TensorSpec(name, dtypes.get(name, "float32"), dims)  # type: ignore[arg-type]  # random_inputs refuses None
        for name, dims in name_shapes(shapes, source.input_names).items()
    }


def _missing_arguments_error(source: ModelSource) -> ModelSourceError:
    parameters = required_parameters(source.module.forward)
    message = f"'{source.description}' cannot be called without arguments"
    return ModelSourceError(
        f"{message}; required arguments: {', '.join(parameters)}",
        hint="pass the name of a function that takes no arguments and returns the model; "
        f"if the function is the model itself, pass --input {parameters[0]}=1x3x224x224",
    )


def open_dimensions(
    dynamic: Mapping[str, object] | Sequence[str] | None,
    signature: Signature,
    input_shapes: Shapes,
    min_shapes: Shapes,
    max_shapes: Shapes,
    recorded: RecordedCalls | None,
) -> DynamicShapes:
    """Return the dynamic dimensions that the options or the recorded calls request.

    If ``dynamic`` is None, the axes whose sizes in ``min_shapes`` and ``max_shapes`` differ are
    dynamic; if both are empty, the axes with a ``?`` in ``input_shapes``. Axes whose sizes differ
    between recorded calls are dynamic as well.

    Raises:
        InputError: An input or axis does not exist.
        ParamsError: The shapes do not match the example inputs.
    """
    outputs = [spec.name for spec in signature.outputs]
    if isinstance(dynamic, Sequence):
        dynamic = parse_dynamic(dynamic, signature.inputs)
    elif dynamic is None and not (min_shapes or max_shapes):
        dynamic = _find_unsized_axes(signature, input_shapes)
    if dynamic is not None or not (min_shapes or max_shapes):
        requested = normalise(dynamic, signature.inputs, outputs)
        names = [spec.name for spec in signature.inputs]
        return requested if recorded is None else recorded.opened(names, requested, dynamic or {})
    usual = {spec.name: _example_sizes(spec) for spec in signature.inputs}
    resolved = range_profiles(usual, min_shapes, max_shapes)
    profiles = {name: (p.min, p.opt, p.max) for name, p in resolved.items()}
    # No size is None: the usual ones are all known.
    dynamic = from_profiles(profiles, (*min_shapes, *max_shapes))  # type: ignore[arg-type]  # see above
    return normalise(dynamic, signature.inputs, outputs)


def _find_unsized_axes(
    signature: Signature, input_shapes: Shapes
) -> dict[str, dict[int, object]] | None:
    """Return the axes with a ``?`` in ``input_shapes``; None if there are none.

    Inputs whose examples have the same size at the same axis share one dimension.
    """
    sizes = {spec.name: _example_sizes(spec) for spec in signature.inputs}
    opened: dict[str, dict[int, object]] = {}
    shared: dict[tuple[int, int | None], str] = {}
    for name, dims in name_shapes(input_shapes, sizes).items():
        if len(dims) != len(sizes[name]) or any(
            dim not in (None, size) for dim, size in zip(dims, sizes[name], strict=True)
        ):
            raise ParamsError(
                f"input '{name}': the example has the shape {format_dims(sizes[name])}, but "
                f"'input_shapes' has {format_dims(dims)}",
                hint="leave out the example or the shape",
            )
        for axis, (dim, size) in enumerate(zip(dims, sizes[name], strict=True)):
            if dim is None:
                dim_name = shared.setdefault((axis, size), name_axis(name, axis))
                opened.setdefault(name, {})[axis] = dim_name
    return opened or None


def range_profiles(
    usual: Shapes, min_shapes: Shapes, max_shapes: Shapes
) -> dict[str, ShapeProfile]:
    """Return the profile of each input: its smallest, usual and largest shape.

    If the smallest or largest shape of an input is missing, the usual shape replaces it.

    Raises:
        ParamsError: A smallest or largest shape does not match the usual shape.
    """
    return resolve_profiles(
        usual,
        {**usual, **name_shapes(min_shapes, usual)},
        {**usual, **name_shapes(max_shapes, usual)},
    )


def _example_sizes(spec: TensorSpec) -> tuple[int | None, ...]:
    return tuple(int(dim) for dim in spec.dims or ())
