"""Read optimisation profiles, the shapes that an engine is built for, from the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors.arrays import format_dims, name_shapes, parse_shapes, resolve_profiles
from enginebay.errors import ParamsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.authors.arrays import ShapeProfile, Shapes
    from enginebay_tensorrt.params import Params

    #: Dimensions by input, -1 where they are dynamic.
    Inputs = Mapping[str, tuple[int, ...]]
    Profile = dict[str, ShapeProfile]


def resolve_profiles_for(
    inputs: Inputs, params: Params, known: Mapping[str, ShapeProfile]
) -> list[Profile]:
    """Return the optimisation profiles, each with the shape ranges of all dynamic inputs.

    Args:
        inputs: The network's inputs.
        params: The parameters. The first profile is from ``input_shapes``, ``min_shapes`` and
            ``max_shapes``, the other profiles are from ``profiles``.
        known: The shape ranges of the deployment, used if the parameters contain no shapes.

    Raises:
        ParamsError: A dynamic input has no shapes, or shapes do not fit the network.

    Example:
        >>> from enginebay_tensorrt.params import TensorrtParams
        >>> params = TensorrtParams(min_shapes="1x3", input_shapes="4x3", max_shapes="8x3")
        >>> resolve_profiles_for({"x": (-1, 3)}, params, {})
        [{'x': ShapeProfile(min=(1, 3), opt=(4, 3), max=(8, 3))}]
    """
    profiles = [_name_profile(inputs, *_parse_profile(text)) for text in params.profiles]
    if params.input_shapes:
        shapes = (params.min_shapes, params.input_shapes, params.max_shapes)
        profiles.insert(0, _name_profile(inputs, *shapes))
    elif not profiles:
        profiles.append({name: known[name] for name in inputs if name in known})
    return [dynamic for profile in profiles if (dynamic := _select_dynamic(inputs, profile))]


def _parse_profile(text: str) -> tuple[Shapes, Shapes, Shapes]:
    parts = text.split("/")
    if len(parts) != 3:
        raise ParamsError(
            f"wrong profile '{text}': expected smallest / usual / largest shapes, "
            f"found {len(parts)} parts",
            hint='--profiles "x:1x3 / x:4x3 / x:8x3"',
        )
    smallest, usual, largest = map(parse_shapes, parts)
    return smallest, usual, largest


def _name_profile(inputs: Inputs, smallest: Shapes, usual: Shapes, largest: Shapes) -> Profile:
    return resolve_profiles(*(name_shapes(shapes, inputs) for shapes in (usual, smallest, largest)))


def _select_dynamic(inputs: Inputs, profile: Profile) -> Profile:
    """Check a profile against the network; return the shapes of the dynamic inputs only."""
    for name, shapes in profile.items():
        _check_profile(name, inputs[name], shapes)
    dynamic = [name for name, dims in inputs.items() if -1 in dims]
    for name in dynamic:
        if name not in profile:
            _raise_no_range(name, inputs[name])
    return {name: profile[name] for name in dynamic}


def _check_profile(name: str, dims: tuple[int, ...], profile: ShapeProfile) -> None:
    for kind, shape in (
        ("smallest", profile.min),
        ("usual", profile.opt),
        ("largest", profile.max),
    ):
        fits = len(shape) == len(dims) and all(
            dim in (-1, size) for dim, size in zip(dims, shape, strict=True) if size is not None
        )
        if not fits:
            raise ParamsError(
                f"the {kind} shape '{format_dims(shape)}' of input '{name}' does not fit the "
                f"network: expected '{_format_dims(dims)}'"
            )
        if any(size is None and dim == -1 for dim, size in zip(dims, shape, strict=True)):
            _raise_no_range(name, dims)


def _raise_no_range(name: str, dims: tuple[int, ...]) -> None:
    flags = " ".join(
        f"--{flag} {name}:{format_dims(tuple(number if dim == -1 else dim for dim in dims))}"
        # Any sizes: the user replaces them.
        for flag, number in (("min-shapes", 1), ("input-shapes", 4), ("max-shapes", 8))
    )
    raise ParamsError(
        f"input '{name}' is dynamic ('{_format_dims(dims)}'): TensorRT requires its "
        "smallest, usual and largest shapes",
        hint=flags,
    )


def _format_dims(dims: tuple[int, ...]) -> str:
    return format_dims(tuple(None if dim == -1 else dim for dim in dims))
