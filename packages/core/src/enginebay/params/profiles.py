"""Smallest, usual and largest shapes, checked against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from enginebay.errors import ParamsError, nearest
from enginebay.params.shapes import Shapes, format_dims

if TYPE_CHECKING:
    from collections.abc import Iterable

Dims: TypeAlias = tuple[int | None, ...]


class ShapeProfile(msgspec.Struct, frozen=True):
    """The shapes that one input may take.

    Attributes:
        min: Its smallest dims.
        opt: The dims to tune for.
        max: Its largest dims. None stands for a dim that nobody fixed.
    """

    min: Dims
    opt: Dims
    max: Dims

    @property
    def is_static(self) -> bool:
        """True where every dim is a number and cannot change."""
        return self.min == self.max and None not in self.min


def resolve_profiles(
    main: Shapes, minimum: Shapes | None = None, maximum: Shapes | None = None
) -> dict[str, ShapeProfile]:
    """Bring the three kinds of shapes together.

    Args:
        main: The usual shapes.
        minimum: The smallest ones, with None (``?``) for a dim that is as in ``main``; nothing
            where all are as in ``main``.
        maximum: The largest ones, likewise.

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

    Raises:
        ParamsError: A name is not an input's, or a name is missing and there are several inputs.

    Example:
        >>> name_shapes({"": (1, 3)}, ["x"])
        {'x': (1, 3)}
    """
    known = list(input_names)
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


def _complete(main: Shapes, given: Shapes, which: str) -> dict[str, Dims]:
    """``given`` in the order of ``main``, with ``main``'s dim for every None."""
    for name in given:
        if name not in main:
            raise _unknown(name, main, "in the main shapes: those have")
    for name in main:
        if name not in given:
            raise ParamsError(
                f"the {which} shapes do not give {name!r}: they have {_listed(given)}",
                hint=f"add {name}:{format_dims(main[name])}",
            )
    return {name: _fill(name, main[name], given[name], which) for name in main}


def _fill(name: str, main: Dims, given: Dims, which: str) -> Dims:
    if len(given) != len(main):
        raise ParamsError(
            f"the {which} shape '{format_dims(given)}' of {name!r} has rank {len(given)}: "
            f"wanted {len(main)}, as in '{format_dims(main)}'"
        )
    return tuple(usual if dim is None else dim for usual, dim in zip(main, given, strict=True))


def _check_order(name: str, smallest: Dims, usual: Dims, largest: Dims) -> None:
    for place, dims in enumerate(zip(smallest, usual, largest, strict=True)):
        known = [dim for dim in dims if dim is not None]
        if known != sorted(known):
            low, middle, high = map(format_dims, (smallest, usual, largest))
            raise ParamsError(
                f"dim {place} of {name!r} is out of order: wanted min ≤ main ≤ max, "
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
