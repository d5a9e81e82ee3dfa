"""Arithmetic on constants; the size of a result is checked before the computation."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from enginebay.config.limits import MAX_INT_BITS

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


def apply_unary(operation: ast.unaryop, value: object) -> object:
    """Return the result of a unary operator on a number.

    Raises:
        ValueError: The value is not a number, or does not support the operator.
    """
    if not isinstance(value, int | float):
        kind = type(value).__name__
        raise ValueError(f"expected a number, found {kind}")  # noqa: TRY004  # the caller adds the location
    return _apply_operator(operation, value)


def apply_binary(operation: ast.operator, left: object, right: object, budget: Budget) -> object:
    """Return the result of a binary operator; texts, lists and tuples can be joined and repeated.

    Raises:
        ValueError: The operator does not support the values, the divisor is zero, or the result is
            too large.
    """
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        budget.spend("values", _joined_size(operation, left, right))
    elif _result_bits(operation, left, right) > MAX_INT_BITS:
        raise ValueError(f"the result has more than {MAX_INT_BITS} bits")
    return _apply_operator(operation, left, right)


def _apply_operator(operation: ast.operator | ast.unaryop, *operands: object) -> object:
    try:
        result = _OPERATORS[type(operation)](*operands)
    except (ArithmeticError, TypeError) as err:
        raise ValueError(str(err.args[-1])) from err
    if isinstance(result, complex):
        # Such as (-1) ** 0.5.
        raise ValueError("the result is a complex number")  # noqa: TRY004  # no type is wrong
    return result


def _joined_size(operation: ast.operator, left: Any, right: Any) -> int:
    """Return the length of the sequence that ``+`` joins or ``*`` repeats.

    Raises:
        ValueError: The operation is neither the sum of two sequences of one type, nor the product
            of a sequence and an integer.
    """
    items, other = (right, left) if isinstance(left, int) else (left, right)
    if isinstance(items, str | list | tuple):
        if isinstance(operation, ast.Add) and type(left) is type(right):
            return len(left) + len(right)
        if isinstance(operation, ast.Mult) and isinstance(other, int):
            return len(items) * max(other, 0)
    raise ValueError(f"expected numbers, found {type(left).__name__} and {type(right).__name__}")


def _result_bits(operation: ast.operator, left: float, right: float) -> int:
    """Return an upper bound of the number of bits of an integer result; 0 for a float result."""
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
