"""Masks with an empty row, with one key, with more padding than keys, and padded at the left."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .plant import ENGINES, OTHER_X, Plant, X, normal
from .values import TOLD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .plant import Model

    Mistake = Callable[[Tensor], Tensor]

LENGTH = 7
_PLACES = torch.arange(LENGTH)


def _share(m: Tensor) -> Tensor:
    return m / m.sum(1, keepdim=True).clamp(min=1)


def _last(m: Tensor) -> Tensor:
    return (m * _PLACES).argmax(1)


POOLED: dict[str, Model] = {
    "mean": lambda x, m: (x * _share(m)[..., None]).sum(1),
    "attention": lambda x, m: torch.softmax((x @ x.mT).masked_fill(m[:, None] == 0, -1e9), -1) @ x,
    "maximum": lambda x, m: x.masked_fill(m[..., None] == 0, -1e4).amax(1),
    "the last key": lambda x, m: x[torch.arange(2), _last(m)],
    "the first key": lambda x, m: x[torch.arange(2), m.argmax(1)],
    "positions": lambda x, m: x + torch.sin(m.cumsum(1).to(x.dtype))[..., None],
    "length": lambda x, m: torch.cat([x.mean(1), m.sum(1, keepdim=True).to(x.dtype) / 9], 1),
}
#: A mistake, and the masks that show it.
EMPTY, ONE, FEW = (
    torch.tensor([[1] * LENGTH, [int(p < n) for p in range(LENGTH)]]) for n in (0, 1, 2)
)
LEFT = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1, 1]])
MASK_MISTAKES: dict[str, tuple[Mistake, Tensor]] = {
    "an empty row taken for a full one": (
        lambda m: torch.where(m.sum(1, keepdim=True) == 0, 1, m),
        EMPTY,
    ),
    "no fewer than two keys": (
        lambda m: torch.where(m.sum(1, keepdim=True) < 2, (_PLACES < 2).to(m.dtype), m),
        ONE,
    ),
    "more padding than keys taken for none": (
        lambda m: torch.where(m.sum(1, keepdim=True) * 2 < LENGTH, 1, m),
        FEW,
    ),
    "padded at the left taken for the right": (
        lambda m: torch.where((m[:, 1:] >= m[:, :-1]).all(1, keepdim=True), m.flip(1), m),
        LEFT,
    ),
}
#: Models that are written without care for an empty row.
CARELESS: dict[str, tuple[Model, Model]] = {
    "a mean without its clamp": (
        POOLED["mean"],
        lambda x, m: (x * (m / m.sum(1, keepdim=True))[..., None]).sum(1),
    ),
    "-inf for -1e9": (
        POOLED["attention"],
        lambda x, m: torch.softmax((x @ x.mT).masked_fill(m[:, None] == 0, float("-inf")), -1) @ x,
    ),
    "a maximum of -inf": (
        POOLED["maximum"],
        lambda x, m: x.masked_fill(m[..., None] == 0, float("-inf")).amax(1),
    ),
    "a geometric mean of no key": (
        lambda x, m: torch.where(
            m.any(1, keepdim=True), (x * _share(m)[..., None]).sum(1).exp(), 0
        ),
        lambda x, m: (x * _share(m)[..., None]).sum(1).exp(),
    ),
}
#: The dtypes of the masks and their examples: of ones, and padded at the right.
EXAMPLES = {
    "ones": torch.ones(2, LENGTH, dtype=torch.int64),
    "right padding": torch.tensor([[1] * LENGTH, [1] * 4 + [0] * 3]),
}


def paddings() -> Iterator[Plant]:
    """Plants that misread masks of few keys, and masks that are padded at the left."""
    for (use, right), (name, (mistake, shown)) in itertools.product(
        POOLED.items(), MASK_MISTAKES.items()
    ):
        wrong = _misread(right, mistake)
        yield from _padded(use, name, right, wrong, shown, engines=use in ("mean", "attention"))
    for use, (right, wrong) in CARELESS.items():
        yield from _padded(use, "an empty row", right, wrong, EMPTY, engines=True)


def _padded(
    use: str, name: str, right: Model, wrong: Model, shown: Tensor, *, engines: bool
) -> Iterator[Plant]:
    for about, example in EXAMPLES.items():
        if about != "ones" and not engines:
            continue
        for engine in ENGINES if engines and about == "ones" else ENGINES[:1]:
            yield Plant(
                *("few keys", f"{use}, {about}, {engine}", name, right, wrong),
                *((X, example), (OTHER_X.clamp(X.min(), X.max()), shown)),
                *({}, True, "'other'", engine, shown is not LEFT),
            )


def _misread(right: Model, mistake: Mistake) -> Model:
    return lambda x, m: right(x, mistake(m))


# -- ids -------------------------------------------------------------------------------------------

VOCABULARY = 1000
TABLE = normal(VOCABULARY, 8, seed=21)
#: Ids of the example, and ids that no example has: near the table's end, and padding.
IDS = torch.tensor([[5, 17, 3, 9, 42, 8], [7, 2, 61, 11, 5, 30]])
LAST_IDS = torch.tensor([[5, 17, 999, 9, 42, 998], [999, 2, 61, 997, 5, 30]])
PADDED_IDS = torch.tensor([[5, 17, 3, 9, 0, 0], [7, 2, 0, 0, 0, 0]])
LOOKED_UP: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "an embedding": lambda ids, table: table[ids],
    "a bag": lambda ids, table: table[ids].mean(1),
    "an attention": lambda ids, table: (
        torch.softmax(table[ids] @ table[ids].mT / 3, -1) @ table[ids]
    ),
    "tied scores": lambda ids, table: table[ids].cumsum(1) @ table.T / 9,
}
ID_MISTAKES: dict[str, tuple[Mistake, Tensor]] = {
    "the last row is the one before": (lambda ids: ids.clamp(max=VOCABULARY - 2), LAST_IDS),
    "ids of nine bits": (lambda ids: ids % 512, LAST_IDS),
    "the row of padding is the first word's": (lambda ids: ids.clamp(min=1), PADDED_IDS),
    "padding is the last row": (
        lambda ids: (ids - 1) % VOCABULARY + (ids != 0).to(ids.dtype),
        PADDED_IDS,
    ),
}


def ids() -> Iterator[Plant]:
    """Plants that misread ids of a table's end, and the id of padding."""
    for (use, model), (name, (mistake, shown)) in itertools.product(
        LOOKED_UP.items(), ID_MISTAKES.items()
    ):
        for engine in ENGINES if use == "an embedding" else ENGINES[:1]:
            yield Plant(
                *("ids", f"{use}, {engine}", name),
                lambda ids, model=model: model(ids, TABLE),
                lambda ids, model=model, mistake=mistake: model(mistake(ids), TABLE),
                *((IDS,), (shown,)),
                *({}, True, TOLD, engine, True),
            )
