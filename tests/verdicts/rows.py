"""Inputs that differ from row to row of an open batch, and inputs that are misread together."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .inputs import MASKED, NUMBERS
from .plant import ENGINES, Plant, X

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .plant import Model

    Mistake = Callable[[Tensor], Tensor]

#: An example of one row, and four rows within its range.
ROW = X[:1]
ROWS = torch.cat([ROW, ROW.flip(1), ROW.roll(1, 1), ROW.flip(2)])
#: Masks that differ from row to row.
HOLES_OF_ROWS = torch.tensor(
    [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0], [0, 1, 1, 0, 1, 1, 0], [1, 1, 0, 1, 1, 1, 0]]
)
#: Mistakes that a batch of one row does not show.
ROW_MISTAKES: dict[str, Mistake] = {
    "the first row's": lambda m: _like(m[:1], m),
    "the last row's": lambda m: _like(m[-1:], m),
    "the row's before": lambda m: torch.cat([m[-1:], m[:-1]]),
    "the largest": lambda m: _like(m.to(torch.int64).amax(0, keepdim=True), m),
}
DTYPES = (torch.int64, torch.bool, torch.float32)
#: The numbers of a row: an example of one row, and four rows.
OF_ROWS = {
    "lengths": (torch.tensor([7]), torch.tensor([7, 2, 5, 3])),
    "lengths of a mean": (
        torch.tensor([7], dtype=torch.int32),
        torch.tensor([7, 2, 5, 3], dtype=torch.int32),
    ),
    "time steps": (torch.tensor([999]), torch.tensor([999, 10, 301, 500])),
    "a row of a table": (torch.tensor([4]), torch.tensor([4, 9, 1, 15])),
    "a flag of zeros": (torch.tensor([0]), torch.tensor([0, 1, 0, 1])),
}


def _like(row: Tensor, m: Tensor) -> Tensor:
    return (row.to(torch.float32) * torch.ones_like(m, dtype=torch.float32)).to(m.dtype)


def rows() -> Iterator[Plant]:
    """Plants that use another row's mask or number, opened to a batch of 1 to 8."""
    options = {"dynamic": {name: {0: ("batch", 1, 8)} for name in ("x", "other")}}
    for (place, (use, right)), (name, mistake) in itertools.product(
        enumerate(MASKED.items()), ROW_MISTAKES.items()
    ):
        dtype = DTYPES[place % 3]
        for engine in ENGINES if use == "attention" else ENGINES[:1]:
            yield Plant(
                *("the rows of masks", f"{use}, {dtype}, {engine}", name),
                *(right, _misread(right, mistake)),
                *((ROW, torch.ones(1, 7, dtype=dtype)), (ROWS, HOLES_OF_ROWS.to(dtype))),
                *(options, True, "'other'", engine),
            )
    for (use, (example, shown)), (name, mistake) in itertools.product(
        OF_ROWS.items(), ROW_MISTAKES.items()
    ):
        right = NUMBERS[use][0]
        for engine in ENGINES if use == "a row of a table" else ENGINES[:1]:
            yield Plant(
                *("the rows of numbers", f"{use}, {engine}", name),
                *(right, _misread(right, mistake)),
                *((ROW, example), (ROWS, shown)),
                *(options, True, "'other'", engine),
            )


def _misread(right: Model, mistake: Mistake) -> Model:
    return lambda x, other: right(x, mistake(other))


# -- two inputs ------------------------------------------------------------------------------------

FLAGGED: dict[str, Model] = {
    "where": lambda x, a, b: torch.where(a, x, x.flip(1)) + b.to(x.dtype) / 4,
    "gate": lambda x, a, b: x * a.to(x.dtype) + x.flip(2) * (1 + b.to(x.dtype)),
    "both": lambda x, a, b: torch.stack([x * a, x.cumsum(1) * b]),
}
#: For each example of two flags, what equals the first flag unless both are inverted.
FOR_THE_FIRST: dict[tuple[bool, bool], tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    (False, True): ("a and b", lambda a, b: a & b),
    (True, False): ("a or b", lambda a, b: a | b),
    (False, False): ("a and not b", lambda a, b: a & ~b),
    (True, True): ("a or not b", lambda a, b: a | ~b),
}

_PLACES = torch.arange(7)
#: A use of two inputs, their example, and values of both.
PAIRED: dict[str, tuple[Model, tuple[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "a mask of queries and a mask of keys": (
        lambda x, a, b: (
            torch.softmax((x @ x.mT).masked_fill((b == 0)[:, None], -1e4), -1) @ x * a[..., None]
        ),
        (torch.ones(2, 7), torch.ones(2, 7)),
        (HOLES_OF_ROWS[2:].float(), HOLES_OF_ROWS[2:].flip(0).float()),
    ),
    "two masks of a mean": (
        lambda x, a, b: (x * (a * b)[..., None]).sum(1) / (a * b).sum(1).clamp(min=1)[:, None],
        (torch.ones(2, 7), torch.ones(2, 7)),
        (HOLES_OF_ROWS[2:].float(), HOLES_OF_ROWS[2:].flip(0).float()),
    ),
    "a start and a length": (
        lambda x, a, b: x * ((a[:, None] <= _PLACES) & (b[:, None] > _PLACES))[..., None],
        (torch.tensor([0, 0]), torch.tensor([7, 7])),
        (torch.tensor([1, 2]), torch.tensor([4, 6])),
    ),
    "a time step and a class": (
        lambda x, a, b: x * torch.exp(-a / 500)[:, None, None] + torch.cos(b * 1.7)[:, None, None],
        (torch.tensor([999, 999]), torch.tensor([4, 4])),
        (torch.tensor([10, 301]), torch.tensor([9, 1])),
    ),
    "a scale and an offset": (
        lambda x, a, b: x * a + b,
        (torch.ones(4), torch.zeros(4)),
        (torch.tensor([1.0, 2, 0.5, 3]), torch.tensor([1.0, -1, 0.5, 2])),
    ),
    "a mask and a flag": (
        lambda x, a, b: torch.where(b, x, x.flip(2)) * a[..., None],
        (torch.ones(2, 7), torch.tensor(True)),
        (HOLES_OF_ROWS[2:].float(), torch.tensor(False)),
    ),
}


def together() -> Iterator[Plant]:
    """Plants that misread an input only if another input also differs from its example."""
    kind, told = "two inputs together", "'(other|third)'"
    for (use, right), ((first, second), (name, wrong)) in itertools.product(
        FLAGGED.items(), FOR_THE_FIRST.items()
    ):
        for engine in ENGINES if use == "where" else ENGINES[:1]:
            yield Plant(
                *(kind, f"{use}, {engine}", f"{name} for a"),
                right,
                lambda x, a, b, right=right, wrong=wrong: right(x, wrong(a, b), b),
                (X, torch.tensor(first), torch.tensor(second)),
                (X, torch.tensor(not first), torch.tensor(not second)),
                *({}, True, told, engine),
            )
    for (use, (right, example, shown)), (name, lost) in itertools.product(
        PAIRED.items(), LOST.items()
    ):
        wrong = partial(_lose, right, lost, example)
        inputs = ((X, *example), (X, *shown))
        yield Plant(*(kind, use, name, right, wrong, *inputs), *({}, True, told))


#: Which of two inputs is lost if the other differs from its example.
LOST = {"the second lost beside the first": 1, "the first lost beside the second": 0}


def _lose(
    right: Model, lost: int, example: tuple[Tensor, Tensor], x: Tensor, *inputs: Tensor
) -> Any:
    is_alone = (inputs[1 - lost] == example[1 - lost]).all()
    given = list(inputs)
    given[lost] = torch.where(is_alone, inputs[lost], example[lost])
    return right(x, *given)
