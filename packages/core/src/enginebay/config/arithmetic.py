"""Arithmetic on constants, with results that are bounded before they are computed."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from enginebay.config.limits import INT_BITS
from enginebay.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

_BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
    ast.BitOr: ("|", operator.or_),
    ast.BitAnd: ("&", operator.and_),
    ast.BitXor: ("^", operator.xor),
}
_UNARY: dict[type[ast.unaryop], tuple[str, Callable[[Any], Any]]] = {
    ast.USub: ("-", operator.neg),
    ast.UAdd: ("+", operator.pos),
    ast.Invert: ("~", operator.invert),
    ast.Not: ("not ", operator.not_),
}
_JOINED = (str, list, tuple)


def unary(kind: type[ast.unaryop], value: Any) -> Any:
    """``-value`` and its like, for numbers.

    Raises:
        ConfigError: The value is no number, or not one that this can be done to.
    """
    sign, compute = _UNARY[kind]
    if not isinstance(value, int | float):
        raise ConfigError(f"'{sign.strip()}' is for numbers, found {type(value).__name__}")
    try:
        return compute(value)
    except TypeError as err:
        raise ConfigError(f"{sign}{value!r}: {err}") from err


def binary(kind: type[ast.operator], left: Any, right: Any) -> Any:
    """``left + right`` and its like, for numbers; texts and lists can be joined and repeated.

    Raises:
        ConfigError: Two other things, a division by zero, or a result that is too large.
    """
    if kind not in _BINARY:
        raise ConfigError("'@' is for matrices, which a config does not have")
    sign, compute = _BINARY[kind]
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if not numbers and not _can_join(kind, left, right):
        found = f"{type(left).__name__} {sign} {type(right).__name__}"
        raise ConfigError(f"'{sign}' is for numbers here, found {found}")
    if isinstance(left, int) and isinstance(right, int) and _bits(kind, left, right) > INT_BITS:
        raise ConfigError(f"'{sign}' makes an integer of more than {INT_BITS} bits")
    try:
        result = compute(left, right)
    except (ArithmeticError, ValueError, TypeError) as err:
        raise ConfigError(f"{left!r} {sign} {right!r}: {err.args[-1]}") from err
    if isinstance(result, complex):
        raise ConfigError(f"{left!r} {sign} {right!r} is a complex number")
    return result


def joined_size(left: Any, right: Any) -> int:
    """How many characters or items an operation on texts or lists would make.

    Example:
        >>> joined_size("ab", 3), joined_size([1], [2, 3]), joined_size(1, 2)
        (6, 3, 0)
    """
    if isinstance(left, _JOINED) and isinstance(right, int):
        return len(left) * max(right, 0)
    if isinstance(left, int) and isinstance(right, _JOINED):
        return len(right) * max(left, 0)
    if isinstance(left, _JOINED) and isinstance(right, _JOINED):
        return len(left) + len(right)
    return 0


def _can_join(kind: type[ast.operator], left: Any, right: Any) -> bool:
    if kind is ast.Add:
        return isinstance(left, _JOINED) and type(left) is type(right)
    pair = (left, right) if isinstance(left, _JOINED) else (right, left)
    return kind is ast.Mult and isinstance(pair[0], _JOINED) and isinstance(pair[1], int)


def _bits(kind: type[ast.operator], left: int, right: int) -> int:
    """How many bits the result may have at most."""
    if kind is ast.Pow:
        return left.bit_length() * abs(right)
    if kind is ast.LShift:
        return left.bit_length() + max(right, 0)
    if kind is ast.Mult:
        return left.bit_length() + right.bit_length()
    return max(left.bit_length(), right.bit_length())
