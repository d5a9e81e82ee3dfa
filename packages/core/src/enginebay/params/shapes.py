"""Shapes as text, such as ``input:1x3x224x224,mask:1x?``, and ranges of shapes.

::

    shapes   one or more of shape, separated by commas or blanks
    shape    [name ":"] [dim ("x" dim)*]      "=" is accepted for ":"
    dim      a number from 0 up, or "?" (or "-1") for a dynamic dim

The last colon or equals sign ends the name, so that names may contain these characters. A scalar
has a name and no dims: ``scale:``. A shape without a name is the shape of the only input; the key
of this shape is the empty text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from enginebay.errors import ParamsError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

#: One shape, with None for ``?``.
Dims: TypeAlias = tuple[int | None, ...]

#: Dims by input name; the empty name for the only input.
Shapes: TypeAlias = Mapping[str, Dims]

#: Input name → axis → smallest and largest size, with None for an unlimited size.
SizeLimits: TypeAlias = dict[str, dict[int, tuple[int, int | None]]]

#: Frameworks and file formats store sizes as signed 64-bit integers.
_LARGEST_DIM = 2**63 - 1

_SHAPE = re.compile(r"(?:(?P<name>.*)[:=])?(?P<dims>(?:(?:[0-9]+|\?|-1)(?:x(?:[0-9]+|\?|-1))*)?)")


def parse_shapes(text: str) -> dict[str, Dims]:
    """Parse a text with shapes, in the grammar of this module.

    Returns:
        Input name → shape, in the order of the text, with None for ``?``.

    Raises:
        ParamsError: The text does not follow the grammar, or a name occurs twice.

    Example:
        >>> parse_shapes("input:1x3x224x224,mask:1x?")
        {'input': (1, 3, 224, 224), 'mask': (1, None)}
        >>> parse_shapes("1x3")
        {'': (1, 3)}
    """
    shapes: dict[str, Dims] = {}
    for item in filter(None, re.split(r"[,\s]+", text)):
        name, dims = _parse_shape(item)
        if name in shapes:
            what = f"the name {name!r} occurs twice" if name else "several shapes have no name"
            raise ParamsError(f"{text!r} must have exactly one shape for each input: {what}")
        shapes[name] = dims
    check_shapes(shapes)
    return shapes


def format_dims(dims: Dims) -> str:
    """Return one shape as text: ``1x3x?``."""
    return "x".join("?" if dim is None else str(dim) for dim in dims)


def check_shapes(shapes: Shapes) -> None:
    """Check the names and sizes of shapes.

    Raises:
        ParamsError: A name contains a comma or a blank, one of several shapes has no name, or a
            size is negative or exceeds 64 bits.
    """
    if "" in shapes and len(shapes) > 1:
        raise ParamsError(
            f"one of {len(shapes)} shapes has no input name, which is required for several inputs",
            hint=f"write NAME:{format_dims(shapes[''])}",
        )
    for name, dims in shapes.items():
        _check_name(name)
        for dim in dims:
            _check_dim(name, dim)


def _parse_shape(item: str) -> tuple[str, Dims]:
    match = _SHAPE.fullmatch(item)
    if match is None:
        raise ParamsError(
            f"{item!r} is not a shape: expected {_expected_form(item)}", hint=_suggest_form(item)
        )
    dims = match["dims"].split("x") if match["dims"] else []
    return match["name"] or "", tuple(_parse_dim(item, dim) for dim in dims)


def _parse_dim(item: str, dim: str) -> int | None:
    if dim in ("?", "-1"):
        return None
    # Python raises a ValueError for a number of more than 4300 digits.
    if len(dim) > 4300:
        raise ParamsError(f"'{item[:20]}…' is not a shape: a size has {len(dim)} digits")
    return int(dim)


def _expected_form(item: str) -> str:
    return "NAME:1x3x224x224" if re.search("[:=]", item) else "1x3x224x224 or NAME:1x3x224x224"


def _suggest_form(item: str) -> str | None:
    if re.search(r"(^|[:=x])-[0-9]+", item):
        return "write ? for a dynamic dim"
    if item.isidentifier():
        return f"write {item}: if that is the name of a scalar input"
    return None


def _check_name(name: str) -> None:
    if re.search(r"[,\s]", name):
        raise ParamsError(f"{name!r} is not a valid input name: commas and spaces separate shapes")


def _check_dim(name: str, dim: int | None) -> None:
    if dim is not None and not 0 <= dim <= _LARGEST_DIM:
        raise ParamsError(
            f"{dim} is not a valid size of {name!r}: expected 0 to 2**63 - 1",
            hint="write None (in text: ?) for a dynamic dim" if dim < 0 else None,
        )


class ShapeProfile(msgspec.Struct, frozen=True):
    """The shapes that one input may take.

    Attributes:
        min: The smallest shape.
        opt: The usual shape, for which engines are tuned.
        max: The largest shape, with None for an unlimited size.
    """

    min: Dims
    opt: Dims
    max: Dims

    @property
    def is_static(self) -> bool:
        """True if every size is fixed."""
        return self.min == self.max and None not in self.min


def size_limits(profiles: Mapping[str, ShapeProfile]) -> SizeLimits:
    """Return the smallest and the largest size of each axis whose size may differ.

    Example:
        >>> size_limits({"x": ShapeProfile((1, 3), (4, 3), (None, 3))})
        {'x': {0: (1, None)}}
    """
    limits: SizeLimits = {}
    for name, profile in profiles.items():
        for axis, (low, high) in enumerate(zip(profile.min, profile.max, strict=True)):
            if low != high:
                limits.setdefault(name, {})[axis] = (low or 0, high)
    return limits


def resolve_profiles(
    main: Shapes, minimum: Shapes | None = None, maximum: Shapes | None = None
) -> dict[str, ShapeProfile]:
    """Combine the usual, smallest and largest shapes of each input.

    Args:
        main: The usual shapes.
        minimum: The smallest shapes, with None (``?``) for a dim that equals the one in ``main``;
            None if all shapes equal those in ``main``.
        maximum: The largest shapes, in the same form.

    Returns:
        Input name → profile, in the order of ``main``.

    Raises:
        ParamsError: The names or ranks differ, or a dim does not satisfy min ≤ main ≤ max.

    Example:
        >>> resolve_profiles({"x": (4, 3)}, {"x": (1, None)}, {"x": (8, None)})
        {'x': ShapeProfile(min=(1, 3), opt=(4, 3), max=(8, 3))}
    """
    smallest = _complete(main, minimum or main, "smallest")
    largest = _complete(main, maximum or main, "largest")
    for name, opt in main.items():
        _check_order(name, smallest[name], opt, largest[name])
    return {name: ShapeProfile(smallest[name], main[name], largest[name]) for name in main}


def name_shapes(shapes: Shapes, input_names: Iterable[str]) -> dict[str, Dims]:
    """Return the shape of each input by its name, from the shapes that the user wrote.

    A shape without a name is that of the only input. The name of a container of inputs, such as a
    cache, stands for all inputs in the container for which the user wrote no separate shape.

    Raises:
        ParamsError: An input is unknown, or one of several inputs has no name.

    Example:
        >>> name_shapes({"": (1, 3)}, ["x"])
        {'x': (1, 3)}
        >>> name_shapes({"past": (1, 4)}, ["x", "past.0", "past.1"])
        {'past.0': (1, 4), 'past.1': (1, 4)}
    """
    known = list(input_names)
    shapes = {
        own: dims
        for name, dims in shapes.items()
        for own in inputs_in(name, known) or [name]
        if own == name or own not in shapes  # an input's own shape overrides its container's
    }
    if "" in shapes and len(known) != 1:
        raise ParamsError(
            f"the shape '{format_dims(shapes[''])}' has no name: "
            f"the model's inputs are {_join_names(known)}",
            hint="write NAME:" + format_dims(shapes[""]),
        )
    for name in shapes:
        if name and name not in known:
            raise _unknown_name_error(name, known, "an input: the model's inputs are")
    return {name or known[0]: dims for name, dims in shapes.items()}


def inputs_in(container: str, input_names: Iterable[str]) -> list[str]:
    """Return the names of the inputs in a container, such as ``past.0.key`` for ``past``."""
    return [name for name in input_names if container and name.startswith(f"{container}.")]


def _complete(main: Shapes, given: Shapes, which: str) -> dict[str, Dims]:
    """Return ``given`` in the order of ``main``, with the sizes of ``main`` in place of None."""
    for name in given:
        if name not in main:
            raise _unknown_name_error(name, main, "in the main shapes, which contain")
    for name in main:
        if name not in given:
            raise ParamsError(
                f"the {which} shapes do not contain {name!r}: found {_join_names(given)}",
                hint=f"add {name}:{format_dims(main[name])}",
            )
    return {name: _fill(name, main[name], given[name], which) for name in main}


def _fill(name: str, main: Dims, given: Dims, which: str) -> Dims:
    if len(given) != len(main):
        raise ParamsError(
            f"the {which} shape '{format_dims(given)}' of {name!r} has rank {len(given)}: "
            f"expected {len(main)}, as in '{format_dims(main)}'"
        )
    return tuple(usual if dim is None else dim for usual, dim in zip(main, given, strict=True))


def _check_order(name: str, smallest: Dims, usual: Dims, largest: Dims) -> None:
    for axis, dims in enumerate(zip(smallest, usual, largest, strict=True)):
        known = [dim for dim in dims if dim is not None]
        if known != sorted(known):
            low, middle, high = map(format_dims, (smallest, usual, largest))
            raise ParamsError(
                f"the shapes of {name!r} are out of order in dim {axis}: expected min ≤ main "
                f"≤ max, found '{low}', '{middle}', '{high}'"
            )


def _unknown_name_error(name: str, known: Iterable[str], expected: str) -> ParamsError:
    return ParamsError(
        f"{name!r} is not {expected} {_join_names(known)}",
        hint=did_you_mean(name, known),
    )


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
