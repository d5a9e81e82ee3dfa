"""Shapes as text, such as ``input:1x3x224x224,mask:1x?``, and ranges of shapes.

::

    shapes   one or more of shape, separated by commas or blanks
    shape    [name ":"] [dim ("x" dim)*]      "=" is accepted for ":"
    dim      a number from 0 up, or "?" (or "-1") for an open dim

The last colon or equals sign ends the name, so that names may contain these characters. A scalar
has a name and no dims: ``scale:``. A shape without a name is the shape of the only input; its key
is the empty name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from enginebay.errors import ParamsError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

#: One shape, with None for ``?``.
Dims: TypeAlias = tuple[int | None, ...]

#: Dims by input name; the empty name for the only input.
Shapes: TypeAlias = Mapping[str, Dims]

#: No framework or file format counts further than a signed 64-bit number.
_LARGEST_DIM = 2**63 - 1

_SHAPE = re.compile(r"(?:(?P<name>.*)[:=])?(?P<dims>(?:(?:[0-9]+|\?|-1)(?:x(?:[0-9]+|\?|-1))*)?)")


def parse_shapes(text: str) -> dict[str, Dims]:
    """Read shapes from text.

    Returns:
        Dims by input name, in the order of the text, with None for ``?``.

    Raises:
        ParamsError: The text does not follow the grammar, or a name comes twice.

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
            what = f"the name {name!r} comes twice" if name else "more than one has no name"
            raise ParamsError(f"{text!r} does not have one shape for each input: {what}")
        shapes[name] = dims
    check_shapes(shapes)
    return shapes


def format_dims(dims: Dims) -> str:
    """Write one shape's dims: ``1x3x?``."""
    return "x".join("?" if dim is None else str(dim) for dim in dims)


def check_shapes(shapes: Shapes) -> None:
    """Check shapes that were not read from text.

    Raises:
        ParamsError: A name holds a comma or a blank, one of several names is missing, or a dim
            is negative or beyond 64 bits.
    """
    if "" in shapes and len(shapes) > 1:
        raise ParamsError(
            f"a shape without a name is followed by {len(shapes) - 1} more: "
            "only a single input needs no name",
            hint=f"write NAME:{format_dims(shapes[''])}",
        )
    for name, dims in shapes.items():
        _check_name(name)
        for dim in dims:
            _check_dim(name, dim)


def _parse_shape(item: str) -> tuple[str, Dims]:
    match = _SHAPE.fullmatch(item)
    if match is None:
        raise ParamsError(f"{item!r} is not a shape: expected {_wanted(item)}", hint=_hint(item))
    dims = match["dims"].split("x") if match["dims"] else []
    return match["name"] or "", tuple(_parse_dim(item, dim) for dim in dims)


def _parse_dim(item: str, dim: str) -> int | None:
    if dim in ("?", "-1"):
        return None
    # Python raises a ValueError for a number of more than 4300 digits.
    if len(dim) > 4300:
        raise ParamsError(f"'{item[:20]}…' is not a shape: a dim has {len(dim)} digits")
    return int(dim)


def _wanted(item: str) -> str:
    return "NAME:1x3x224x224" if re.search("[:=]", item) else "1x3x224x224 or NAME:1x3x224x224"


def _hint(item: str) -> str | None:
    if re.search(r"(^|[:=x])-[0-9]+", item):
        return "write ? for an open dim"
    if item.isidentifier():
        return f"write {item}: if that is the name of a scalar input"
    return None


def _check_name(name: str) -> None:
    if re.search(r"[,\s]", name):
        raise ParamsError(f"{name!r} cannot name a shape: commas and blanks separate shapes")


def _check_dim(name: str, dim: int | None) -> None:
    if dim is not None and not 0 <= dim <= _LARGEST_DIM:
        raise ParamsError(
            f"{dim} is not a valid size of {name!r}: expected 0 to 2**63 - 1",
            hint="write None (in text: ?) for an open dim" if dim < 0 else None,
        )


class ShapeProfile(msgspec.Struct, frozen=True):
    """The shapes that one input may take.

    Attributes:
        min: Its smallest dims.
        opt: The dims to tune for.
        max: Its largest dims. None is an open dim.
    """

    min: Dims
    opt: Dims
    max: Dims

    @property
    def is_static(self) -> bool:
        """Return True if every dim is a fixed number."""
        return self.min == self.max and None not in self.min


def resolve_profiles(
    main: Shapes, minimum: Shapes | None = None, maximum: Shapes | None = None
) -> dict[str, ShapeProfile]:
    """Combine the three kinds of shapes.

    Args:
        main: The usual shapes.
        minimum: The smallest shapes, with None (``?``) for a dim that equals the one in ``main``;
            None if all are equal.
        maximum: The largest shapes, in the same form.

    Returns:
        One profile an input, in the order of ``main``.

    Raises:
        ParamsError: The names or ranks differ, or a dim is not min ≤ main ≤ max.

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
    """Give the shape without a name the name of the only input, and check the other names.

    A container's name, such as a cache's, sets the shape of all inputs in it that have no shape
    themselves.

    Raises:
        ParamsError: A name is not an input's, or a name is missing and there are several inputs.

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
        if own == name or own not in shapes
    }
    if "" in shapes and len(known) != 1:
        raise ParamsError(
            f"the shape '{format_dims(shapes[''])}' has no name: "
            f"the model's inputs are {_listed(known)}",
            hint="write NAME:" + format_dims(shapes[""]),
        )
    for name in shapes:
        if name and name not in known:
            raise _unknown(name, known, "an input: the model's inputs are")
    return {name or known[0]: dims for name, dims in shapes.items()}


def inputs_in(container: str, input_names: Iterable[str]) -> list[str]:
    """The inputs whose names begin with a container's: ``past.0.key`` is in ``past``."""
    return [name for name in input_names if container and name.startswith(f"{container}.")]


def _complete(main: Shapes, given: Shapes, which: str) -> dict[str, Dims]:
    """Order ``given`` like ``main``, and fill every None with ``main``'s dim."""
    for name in given:
        if name not in main:
            raise _unknown(name, main, "in the main shapes: those have")
    for name in main:
        if name not in given:
            raise ParamsError(
                f"the {which} shapes lack {name!r}: found {_listed(given)}",
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
    for place, dims in enumerate(zip(smallest, usual, largest, strict=True)):
        known = [dim for dim in dims if dim is not None]
        if known != sorted(known):
            low, middle, high = map(format_dims, (smallest, usual, largest))
            raise ParamsError(
                f"dim {place} of {name!r} is out of order: expected min ≤ main ≤ max, "
                f"found '{low}', '{middle}', '{high}'"
            )


def _unknown(name: str, known: Iterable[str], wanted: str) -> ParamsError:
    guess = nearest(name, known)
    return ParamsError(
        f"{name!r} is not {wanted} {_listed(known)}",
        hint=f"did you mean {guess!r}?" if guess else None,
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
