"""Inputs that hold one value in the example: masks, lengths, steps, positions, flags, biases."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from .plant import HOLES, OTHER_X, Plant, X, normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .plant import Model

    Mistake = Callable[..., Any]

MASKED: dict[str, Model] = {
    "attention": lambda x, m: (
        torch.softmax((x @ x.mT).masked_fill((m == 0)[:, None], -1e4), -1) @ x
    ),
    "mean": lambda x, m: (x * m.to(x.dtype)[..., None]).sum(1) / m.to(x.dtype).sum(1)[:, None],
    "maximum": lambda x, m: x.masked_fill((m == 0)[..., None], -9).amax(1),
    "positions": lambda x, m: x + (m.to(x.dtype).cumsum(1) / 9)[..., None],
    "gate": lambda x, m: x * m.to(x.dtype)[..., None],
    "where": lambda x, m: torch.where((m != 0)[..., None], x, x.flip(1)),
}
MASK_MISTAKES: dict[str, Mistake] = {
    "not read": torch.ones_like,
    "the first row's": lambda m: m[:1].expand_as(m),
    "a prefix of that count": lambda m: (
        torch.arange(7) < m.to(torch.int64).sum(1, keepdim=True)
    ).to(m.dtype),
    "its last place alone": lambda m: torch.cat([torch.ones_like(m[:, :-1]), m[:, -1:]], 1),
    "all but its first place": lambda m: torch.cat([torch.ones_like(m[:, :1]), m[:, 1:]], 1),
}
MASK_DTYPES = (torch.int64, torch.bool, torch.float32)


def masks() -> Iterator[Plant]:
    """Plants that misread a mask whose example is all ones."""
    for (use, right), (name, mistake), dtype in itertools.product(
        MASKED.items(), MASK_MISTAKES.items(), MASK_DTYPES
    ):
        yield _mistaken(
            *("masks of ones", f"{use}, {dtype}", name, right, mistake),
            *(torch.ones(2, 7, dtype=dtype), HOLES.to(dtype)),
        )


def _mistaken(
    kind: str, use: str, name: str, right: Model, mistake: Mistake, value: Tensor, shown: Tensor
) -> Plant:
    """A model of ``X`` that misreads its other input."""

    def wrong(x: Tensor, other: Tensor) -> Any:
        return right(x, mistake(other))

    return Plant(kind, use, name, right, wrong, (X, value), (OTHER_X, shown))


_PLACES = torch.arange(7)
NUMBERS: dict[str, tuple[Model, Tensor, Tensor]] = {
    "lengths": (
        lambda x, n: x * (n[:, None] > _PLACES)[..., None],
        torch.tensor([7, 7]),
        torch.tensor([2, 5]),
    ),
    "lengths of a mean": (
        lambda x, n: x.cumsum(1) / n[:, None, None],
        torch.tensor([7, 7], dtype=torch.int32),
        torch.tensor([2, 5], dtype=torch.int32),
    ),
    "a time step": (
        lambda x, t: x + torch.sin(t * torch.tensor([1, 0.1, 0.01, 0.001])),
        torch.tensor(999),
        torch.tensor(301),
    ),
    "time steps": (
        lambda x, t: x * torch.exp(-t / 500)[:, None, None],
        torch.tensor([999, 999]),
        torch.tensor([10, 301]),
    ),
    "a start position": (
        lambda x, p: x + torch.cos((_PLACES + p) * 0.3)[:, None],
        torch.tensor(12),
        torch.tensor(3),
    ),
    "a row of a table": (
        lambda x, i: x + functional.embedding(i, TABLE)[:, None],
        torch.tensor([4, 4]),
        torch.tensor([9, 1]),
    ),
    "a flag": (
        lambda x, f: torch.where(f, x, x.flip(1)),
        torch.tensor(True),
        torch.tensor(False),
    ),
    "a flag of zeros": (
        lambda x, f: x * (1 - f)[:, None, None] + 1,
        torch.tensor([0, 0]),
        torch.tensor([0, 1]),
    ),
}
TABLE = normal(16, 4, seed=2)
NUMBER_MISTAKES: dict[str, Callable[[Tensor], Mistake]] = {
    "not read": lambda example: lambda n: torch.zeros_like(n) + example,
    "the first row's": lambda example: lambda n: n[:1].expand_as(n) if n.dim() else n,
    "the largest": lambda example: lambda n: n.amax().expand_as(n) if n.dim() else n,
    "one more than it is": lambda example: (
        lambda n: torch.where(n == example, n, n + 1) if n.dtype is not torch.bool else n
    ),
    "no less than half": lambda example: (
        lambda n: n.clamp(min=int(example.amax()) // 2) if n.dtype is not torch.bool else n
    ),
}


def numbers() -> Iterator[Plant]:
    """Plants that misread a number."""
    for use, (right, example, shown) in NUMBERS.items():
        for name, make in NUMBER_MISTAKES.items():
            kind = "lengths, steps, positions, flags"
            yield _mistaken(kind, use, name, right, make(example), example, shown)


BIASED: dict[str, Model] = {
    "attention": lambda x, b: torch.softmax(x @ x.mT + b[:, None], -1) @ x,
    "sum": lambda x, b: x + b[..., None],
    "scale": lambda x, b: x * torch.exp(b)[..., None],
}
BIAS_MISTAKES: dict[str, Mistake] = {
    "not read": torch.zeros_like,
    "the first row's": lambda b: b[:1].expand_as(b),
    "no negatives": torch.relu,
    "no positives": lambda b: -torch.relu(-b),
    "the other sign": torch.neg,
    "half": lambda b: b / 2,
}


def biases() -> Iterator[Plant]:
    """Plants that misread a bias whose example is all zeros."""
    for (use, right), (name, mistake) in itertools.product(BIASED.items(), BIAS_MISTAKES.items()):
        yield _mistaken(
            *("biases of zeros", use, name, right, mistake),
            *(torch.zeros(2, 7), normal(2, 7, seed=3)),
        )
