"""The shape grammar: ``input:1x3x224x224,mask:1x?``.

::

    shapes   one or more of shape, separated by commas or blanks
    shape    [name ":"] [dim ("x" dim)*]      "=" may stand for ":"
    dim      a number from 0 up, or "?"

The last colon or equals sign ends the name, so that names may hold some themselves. A scalar has
a name and no dims: ``scale:``. A shape without a name is the shape of the only input; it is kept
under the empty name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from enginebay.errors import ParamsError

#: Dims by input name. None stands for ``?``; the empty name for the only input.
Shapes: TypeAlias = Mapping[str, tuple[int | None, ...]]

#: No framework or file format counts further than a signed 64-bit number.
_LARGEST_DIM = 2**63 - 1

_SHAPE = re.compile(r"(?:(?P<name>.*)[:=])?(?P<dims>(?:(?:[0-9]+|\?)(?:x(?:[0-9]+|\?))*)?)")


def parse_shapes(text: str) -> dict[str, tuple[int | None, ...]]:
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
    shapes: dict[str, tuple[int | None, ...]] = {}
    for item in filter(None, re.split(r"[,\s]+", text)):
        name, dims = _parse_shape(item)
        if name in shapes:
            what = f"the name {name!r} comes twice" if name else "more than one has no name"
            raise ParamsError(f"{text!r} does not give one shape an input: {what}")
        shapes[name] = dims
    check_shapes(shapes)
    return shapes


def format_shapes(shapes: Shapes) -> str:
    """Write shapes as text that :func:`parse_shapes` reads back.

    Raises:
        ParamsError: A name cannot be written in the grammar, or a dim is negative.

    Example:
        >>> format_shapes({"x": (1, None), "scale": ()})
        'x:1x?,scale:'
    """
    check_shapes(shapes)
    return ",".join(_format_shape(name, dims) for name, dims in shapes.items())


def format_dims(dims: tuple[int | None, ...]) -> str:
    """One shape's dims as text: ``1x3x?``."""
    return "x".join("?" if dim is None else str(dim) for dim in dims)


def check_shapes(shapes: Shapes) -> None:
    """Refuse what no text could have given.

    Raises:
        ParamsError: A name holds a comma or a blank, one of several names is missing, or a dim
            is negative or beyond 64 bits.
    """
    if "" in shapes and len(shapes) > 1:
        raise ParamsError(
            f"a shape without a name stands beside {len(shapes) - 1} more: "
            "the name can be left out only where there is one input",
            hint=f"write NAME:{format_dims(shapes[''])}",
        )
    for name, dims in shapes.items():
        _check_name(name)
        for dim in dims:
            _check_dim(name, dim)


def _parse_shape(item: str) -> tuple[str, tuple[int | None, ...]]:
    match = _SHAPE.fullmatch(item)
    if match is None:
        raise ParamsError(f"{item!r} is not a shape: wanted {_wanted(item)}", hint=_hint(item))
    dims = match["dims"].split("x") if match["dims"] else []
    return match["name"] or "", tuple(_parse_dim(item, dim) for dim in dims)


def _parse_dim(item: str, dim: str) -> int | None:
    if dim == "?":
        return None
    # Python refuses to read a number of more than 4300 digits with an error of its own.
    if len(dim) > 4300:
        raise ParamsError(f"'{item[:20]}…' is not a shape: a dim has {len(dim)} digits")
    return int(dim)


def _wanted(item: str) -> str:
    return "NAME:1x3x224x224" if re.search("[:=]", item) else "1x3x224x224 or NAME:1x3x224x224"


def _hint(item: str) -> str | None:
    if re.search(r"(^|[:=x])-[0-9]+", item):
        return "write ? for a dim that is not fixed"
    if item.isidentifier():
        return f"write {item}: if that is the name of a scalar input"
    return None


def _format_shape(name: str, dims: tuple[int | None, ...]) -> str:
    text = format_dims(dims)
    return f"{name}:{text}" if name or not text else text


def _check_name(name: str) -> None:
    if re.search(r"[,\s]", name):
        raise ParamsError(f"{name!r} cannot name a shape: commas and blanks separate shapes")


def _check_dim(name: str, dim: int | None) -> None:
    if dim is not None and not 0 <= dim <= _LARGEST_DIM:
        raise ParamsError(
            f"{dim} is not a dim of {name!r}: wanted 0 to 2**63 - 1",
            hint="give None (in text: ?) for a dim that is not fixed" if dim < 0 else None,
        )
