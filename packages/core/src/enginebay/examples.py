"""Example inputs and open dimensions, from whatever the caller gave of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from enginebay.errors import InputError
from enginebay.ir.binding import forward_parameters
from enginebay.ir.dynamic import from_profiles, normalise
from enginebay.ir.inputs import made_up
from enginebay.params import name_shapes, resolve_profiles
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    from enginebay.ir.dynamic import DynamicShapes
    from enginebay.ir.signature import Signature
    from enginebay.ir.sources import ModelSource
    from enginebay.params import ShapeProfile, Shapes


def example_inputs(args: Any, source: ModelSource, shapes: Shapes) -> Any:
    """The example inputs: as given, or made up where only their shapes are.

    Args:
        args: What the caller gave; a dict may hold specs to make up values for.
        source: The model, which may bring its own.
        shapes: The usual shapes, for where there is nothing else.

    Raises:
        InputError: There is nothing to go by.
    """
    if args is None:
        args = source.example_inputs
    if args is None:
        args = _specs_from_shapes(source, shapes)
    if not isinstance(args, Mapping):
        return args
    if "" not in args and not any(isinstance(value, TensorSpec) for value in args.values()):
        return args
    names = _input_names(source)
    named = {names[0] if not name and len(names) == 1 else name: v for name, v in args.items()}
    # A file says which dtypes it takes; whoever types a shape need not repeat them.
    known = {spec.name: spec for spec in (source.ir.inputs if source.ir else ())}
    return {
        name: made_up(known.get(name, TensorSpec(name, value.dtype, value.dims)), value)
        if isinstance(value, TensorSpec)
        else value
        for name, value in named.items()
    }


def _specs_from_shapes(source: ModelSource, shapes: Shapes) -> dict[str, TensorSpec]:
    known = source.ir.inputs if source.ir else ()
    if known and all(spec.is_static for spec in known):
        return {spec.name: spec for spec in known}
    if not shapes:
        raise InputError(
            f"'{source.description}' comes without example inputs",
            hint="pass --input NAME=1x3x224x224 (args=…), or let the model's callable return "
            "(model, inputs)",
        )
    dtypes = {spec.name: spec.dtype for spec in known}
    return {
        name: TensorSpec(name, dtypes.get(name, "float32"), dims)  # type: ignore[arg-type]  # random_inputs refuses open ones
        for name, dims in name_shapes(shapes, _input_names(source)).items()
    }


def open_dimensions(
    dynamic_shapes: Mapping[str, Any] | None,
    signature: Signature,
    min_shapes: Shapes,
    max_shapes: Shapes,
) -> DynamicShapes:
    """The open dimensions: as given, or where the smallest and the largest shapes differ.

    Raises:
        InputError: An input or an axis that does not exist.
        ParamsError: The shapes do not fit the example inputs.
    """
    outputs = [spec.name for spec in signature.outputs]
    if dynamic_shapes is not None:
        return normalise(dynamic_shapes, signature.inputs, outputs)
    if not (min_shapes or max_shapes):
        return {}
    usual = {spec.name: _sizes(spec) for spec in signature.inputs}
    resolved = range_profiles(usual, min_shapes, max_shapes)
    profiles = {name: (p.min, p.opt, p.max) for name, p in resolved.items()}
    return normalise(from_profiles(profiles), signature.inputs, outputs)  # type: ignore[arg-type]  # no size is None: the usual ones are all known


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


def _input_names(source: ModelSource) -> list[str]:
    if source.ir is not None and source.ir.inputs:
        return [spec.name for spec in source.ir.inputs]
    return list(forward_parameters(source.module).parameters)
