"""Wrong rewriters, made by rule: an operation, a wrong operation in its place, an example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Operation = Callable[[Tensor], Tensor]

OPERATIONS: dict[str, Operation] = {
    "relu": torch.relu,
    "abs": torch.abs,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softmax": lambda x: torch.softmax(x, -1),
    "exp": torch.exp,
    "clamp": lambda x: x.clamp(-1, 1),
    "square": torch.square,
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-3),
    "share": lambda x: x / (x.abs().sum(-1, keepdim=True) + 1e-3),
    "cumsum": lambda x: x.cumsum(-1),
    "sort": lambda x: x.sort(-1).values,
    "mean": lambda x: x.mean(-1, keepdim=True) + x,
    "product": lambda x: x @ x.transpose(-1, -2),
}

EXAMPLES: dict[str, Tensor] = {
    "zeros": torch.zeros(4, 4),
    "ones": torch.ones(4, 4),
    "identity": torch.eye(4),
    "sorted": torch.arange(16.0).reshape(4, 4) / 8,
    "small": torch.linspace(-1e-3, 1e-3, 16).reshape(4, 4),
    "normal": torch.randn(4, 4, generator=torch.Generator().manual_seed(0)),
}


def _recorded(operation: Operation, example: Tensor) -> Operation:
    result = operation(example)
    return lambda x: result + 0 * x[..., : result.shape[-1]]


def _identity(operation: Operation, example: Tensor) -> Operation:
    return lambda x: x


def _taylor(operation: Operation, example: Tensor) -> Operation:
    value, step = operation(example), 1e-3
    slope = (operation(example + step) - operation(example - step)) / (2 * step)
    return lambda x: value + slope * (x - example)


def _no_negatives(operation: Operation, example: Tensor) -> Operation:
    return lambda x: operation(x.abs())


def _first_row(operation: Operation, example: Tensor) -> Operation:
    return lambda x: operation(x[:1]).expand_as(operation(x))


def _transposed(operation: Operation, example: Tensor) -> Operation:
    return lambda x: operation(x.t()).t()


def _sorted(operation: Operation, example: Tensor) -> Operation:
    return lambda x: operation(x.sort(-1).values)


def _limited(operation: Operation, example: Tensor) -> Operation:
    return lambda x: operation(x.clamp(example.min().item(), example.max().item()))


def _a_hundredth_off(operation: Operation, example: Tensor) -> Operation:
    return lambda x: operation(x) * 1.01


WRONG: dict[str, Callable[[Operation, Tensor], Operation]] = {
    "the recorded result": _recorded,
    "identity": _identity,
    "a tangent": _taylor,
    "no negatives": _no_negatives,
    "the first row": _first_row,
    "transposed": _transposed,
    "sorted first": _sorted,
    "limited to the example": _limited,
    "one per cent off": _a_hundredth_off,
}


@dataclass(frozen=True)
class Pair:
    """An operation, the wrong operation of a rewriter, and the example.

    Attributes:
        name: Such as ``relu: identity, of ones``.
        hidden: True if the example does not show the error.
    """

    name: str
    right: Operation
    wrong: Operation
    example: Tensor
    hidden: bool


def pairs() -> Iterator[Pair]:
    """Yield every pair that is wrong on other inputs from the distribution of ``normal``."""
    unseen = torch.randn(4, 4, generator=torch.Generator().manual_seed(99))
    for kind, example in EXAMPLES.items():
        for operation, right in OPERATIONS.items():
            for mistake, make in WRONG.items():
                wrong = make(right, example)
                if not _same(right(unseen), wrong(unseen)):
                    name = f"{operation}: {mistake}, of {kind}"
                    yield Pair(name, right, wrong, example, _same(right(example), wrong(example)))


def _same(left: Tensor, right: Tensor) -> bool:
    return left.shape == right.shape and torch.allclose(left, right, 1e-3, 1e-3, equal_nan=True)
