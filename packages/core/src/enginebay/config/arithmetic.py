"""Arithmetic on constants, with results that are bounded before they are computed."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from enginebay.config.limits import INT_BITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.config.limits import Budget

_OPERATORS: dict[type[ast.operator | ast.unaryop], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.MatMult: operator.matmul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}


def unary(operation: ast.unaryop, value: Any) -> Any:
    """``-value`` and its like, for numbers.

    Raises:
        ValueError: The value is no number, or not one with this operation.
    """
    if not isinstance(value, int | float):
        found = type(value).__name__
        raise ValueError(f"wanted a number, found {found}")  # noqa: TRY004  # the caller adds the place
    return _compute(operation, value)


def binary(operation: ast.operator, left: Any, right: Any, budget: Budget) -> Any:
    """``left + right`` and its like, for numbers; texts and lists can be joined and repeated.

    Raises:
        ValueError: Two other values, a division by zero, or a result that is too large.
    """
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        budget.spend("values", _joined_size(operation, left, right))
    elif _bits(operation, left, right) > INT_BITS:
        raise ValueError(f"an integer of more than {INT_BITS} bits")
    return _compute(operation, left, right)


def _compute(operation: ast.operator | ast.unaryop, *operands: Any) -> Any:
    try:
        result = _OPERATORS[type(operation)](*operands)
    except (ArithmeticError, TypeError) as err:
        raise ValueError(str(err.args[-1])) from err
    if isinstance(result, complex):
        raise ValueError("the result is a complex number")  # noqa: TRY004  # no type is wrong
    return result


def _joined_size(operation: ast.operator, left: Any, right: Any) -> int:
    """The number of items in two texts or lists that are joined, or one that is repeated.

    Raises:
        ValueError: It is another operation, or on other values.
    """
    items, other = (right, left) if isinstance(left, int) else (left, right)
    if isinstance(items, str | list | tuple):
        if isinstance(operation, ast.Add) and type(left) is type(right):
            return len(left) + len(right)
        if isinstance(operation, ast.Mult) and isinstance(other, int):
            return len(items) * max(other, 0)
    raise ValueError(f"wanted numbers, found {type(left).__name__} and {type(right).__name__}")


def _bits(operation: ast.operator, left: float, right: float) -> int:
    """The most bits that the result may have; 0 for a float."""
    if not isinstance(left, int) or not isinstance(right, int):
        return 0
    match operation:
        case ast.Pow():
            return left.bit_length() * abs(right)
        case ast.LShift():
            return left.bit_length() + max(right, 0)
        case ast.Mult():
            return left.bit_length() + right.bit_length()
    return max(left.bit_length(), right.bit_length())
