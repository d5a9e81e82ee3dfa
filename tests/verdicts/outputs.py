"""Outputs next to which an error is small, and outputs with a different comparison."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from .plant import ENGINES, HOLES, OTHER_X, Plant, X, normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .plant import Model

    Mistake = Callable[..., Any]

VARYING: dict[str, Model] = {
    "tanh": lambda x: torch.tanh(x).flatten(1),
    "means": lambda x: x.mean(1),
    "softmax": lambda x: torch.softmax(x, -1).flatten(1),
}
#: A constant, a scale, the precision, and whether the scale is above the tolerance.
NARROW = {
    "pressures": (101325, 10, "fp32", False),
    "kelvins": (300, 0.01, "fp32", False),
    "60": (60, 0.2, "fp16", False),
    "pressures of a storm": (101325, 1000, "fp32", True),
}
BESIDE: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "alone": lambda x, y: y,
    "beside another output": lambda x, y: (x.sum(1), y),
}
LOST: dict[str, Callable[[Tensor], Tensor]] = {
    "lost": lambda f: f * 0,
    "the first row's": lambda f: f[:1].expand_as(f),
    "the other sign": torch.neg,
}


def narrow() -> Iterator[Plant]:
    """Plants that lose a result next to a constant."""
    for (where, put), (use, f), (about, (constant, scale, precision, wide)), (
        name,
        lose,
    ) in itertools.product(BESIDE.items(), VARYING.items(), NARROW.items(), LOST.items()):
        yield Plant(
            *("outputs that hardly vary", f"{use}, {about}, {where}", name),
            _beside(put, f, constant, scale, lambda f: f),
            _beside(put, f, constant, scale, lose),
            *((X,), (OTHER_X,)),
            *({"precision": precision}, wide),
        )


def _beside(put: Model, f: Model, constant: float, scale: float, lose: Mistake) -> Model:
    return lambda x: put(x, constant + scale * lose(f(x)))


# -- next to exact numbers -------------------------------------------------------------------------

_LOWEST = torch.finfo(torch.float32).min
MASKS: dict[str, Mistake] = {
    "(1 - m) * lowest": lambda m: (1.0 - m) * _LOWEST,
    "(1 - m) * -1e9": lambda m: (1.0 - m) * -1e9,
    "(m - 1) * 1e4": lambda m: (m - 1) * 1e4,
    "log(m)": torch.log,
}
SCORED: dict[str, Model] = {
    "softmax": lambda x, b: torch.softmax(x.sum(-1) + b, -1),
    "attention": lambda x, b: torch.softmax(x @ x.mT + b[:, None], -1) @ x,
    "maximum": lambda x, b: (x + b[..., None]).amax(1),
}
SCORE_MISTAKES: dict[str, Callable[[Model, Mistake], Model]] = {
    "half as much again": lambda right, bias: lambda x, m: right(x * 1.5, bias(m)),
    "the mask lost": lambda right, bias: lambda x, m: right(x, bias(torch.ones_like(m))),
    "the first row's scores": lambda right, bias: lambda x, m: right(x[:1].expand_as(x), bias(m)),
}


def exact() -> Iterator[Plant]:
    """Plants with wrong scores next to a mask of very large numbers."""
    for (about, bias), (use, right), (name, make) in itertools.product(
        MASKS.items(), SCORED.items(), SCORE_MISTAKES.items()
    ):
        yield Plant(
            *("beside exact numbers", f"{use}, {about}", name),
            lambda x, m, right=right, bias=bias: right(x, bias(m)),
            make(right, bias),
            *((X, torch.ones(2, 7)), (OTHER_X, HOLES.float())),
        )


# -- the best classes, and 8 bits ------------------------------------------------------------------

RANK_MISTAKES: dict[str, Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]] = {
    "the next class in the last place": lambda values, places, k: (
        values[:, :k],
        torch.cat([places[:, : k - 1], places[:, k : k + 1]], 1),
    ),
    "the first class in the last place": lambda values, places, k: (
        values[:, :k],
        torch.cat([places[:, : k - 1], places[:, :1]], 1),
    ),
    "the next in the last place": lambda values, places, k: (
        torch.cat([values[:, : k - 1], values[:, k : k + 1]], 1),
        torch.cat([places[:, : k - 1], places[:, k : k + 1]], 1),
    ),
    "from the second on": lambda values, places, k: (values[:, 1 : k + 1], places[:, 1 : k + 1]),
}


def ranks() -> Iterator[Plant]:
    """Plants with a wrong class, for a comparison of the best classes."""
    for k, classes, (name, mistake) in itertools.product((1, 2, 5), (8, 40), RANK_MISTAKES.items()):
        yield Plant(
            *("the last place of the best", f"{k} of {classes}", name),
            lambda x, k=k: tuple(x.topk(k)),
            lambda x, k=k, mistake=mistake: mistake(*x.topk(k + 1), k),
            *((normal(4, classes),), (normal(4, classes, seed=1),)),
            {"verify": {"compare": {"output_0,output_1": f"top-k:{k}"}}},
        )


WEIGHT = normal(12, 10, seed=4)


def int8() -> Iterator[Plant]:
    """Plants that lose a result next to a constant in 8 bits."""
    for offset, use, (name, lose) in itertools.product(
        (0, 50, 200), ("logits", "softmax"), LOST.items()
    ):
        right, wrong = (_classes(offset, use, each) for each in (lambda f: f, lose))
        yield Plant(
            *("8 bits", f"{use} + {offset}", name, right, wrong),
            *((normal(4, 12),), (normal(4, 12, seed=1),)),
            {"precision": "int8", "data": [(x,) for x in normal(32, 4, 12, seed=5)]},
            offset == 0,  # 8 bits of a range of 200 cannot represent the rest
        )


def _classes(offset: float, use: str, lose: Mistake) -> Model:
    def model(x: Tensor) -> Tensor:
        found = lose(torch.relu(x) @ WEIGHT)
        return (torch.softmax(found, -1) if use == "softmax" else found) + offset

    return model


#: Mistakes that a batch of one does not show.
BATCH_MISTAKES: dict[str, Mistake] = {
    "the first row's": lambda f: f[:1] * torch.ones_like(f),
    "the last row's": lambda f: f[-1:] * torch.ones_like(f),
    "the row's before": lambda f: torch.cat([f[-1:], f[:-1]]),
    "the rows' mean": lambda f: f.mean(0, keepdim=True) * torch.ones_like(f),
}
KERNEL = normal(6, 12, 3, seed=7)
IN_8_BITS: dict[str, Model] = {
    "logits": lambda x: x.mean(-1) @ WEIGHT,
    "convolution": lambda x: functional.conv1d(x, KERNEL).relu(),
    "softmax": lambda x: torch.softmax(x.amax(-1) @ WEIGHT, -1),
    "two layers": lambda x: functional.conv1d(x, KERNEL).relu().mean(-1) @ WEIGHT[:6],
}


def int8_batches() -> Iterator[Plant]:
    """Plants that are wrong for other batches than the example's and the data's, in 8 bits."""
    for (use, right), (name, lose) in itertools.product(IN_8_BITS.items(), BATCH_MISTAKES.items()):
        for engine in ENGINES if use == "logits" else ENGINES[:1]:
            yield Plant(
                *("8 bits of an open batch", f"{use}, {engine}", name),
                right,
                lambda x, right=right, lose=lose: lose(right(x)),
                *((normal(1, 12, 5),), (normal(4, 12, 5, seed=1),)),
                {
                    "precision": "int8",
                    "data": [(x,) for x in normal(32, 1, 12, 5, seed=5)],
                    "dynamic": {"x": {0: ("batch", 1, 8)}},
                },
                *(True, "'batch'", engine, True),
            )


#: Two parts of an output with different scales.
PARTS: dict[str, tuple[Model, Model]] = {
    "boxes beside scores": (
        lambda x: torch.sigmoid(x @ WEIGHT[:, :4]) * 640,
        lambda x: torch.sigmoid(x @ WEIGHT[:, 4:]),
    ),
    "distances beside shares": (
        lambda x: (x @ WEIGHT[:, :4]).square() * 9,
        lambda x: torch.softmax(x @ WEIGHT[:, 4:], -1),
    ),
    "times beside logits": (
        lambda x: 1000 + 30 * (x @ WEIGHT[:, :2]),
        lambda x: x @ WEIGHT[:, 4:] / 9,
    ),
}
#: What one scale for both parts leaves of the smaller part.
ONE_SCALE: dict[str, Callable[[Tensor], Tensor]] = {
    **LOST,
    "rounded to steps of two": lambda f: (f / 2).round() * 2,
    "its mean": lambda f: f.mean(0, keepdim=True) * torch.ones_like(f),
}


def int8_parts() -> Iterator[Plant]:
    """Plants that lose the smaller part of an output in 8 bits, which has a scale of its own."""
    for (use, (large, small)), (name, lose) in itertools.product(PARTS.items(), ONE_SCALE.items()):
        for engine in ENGINES if use == "boxes beside scores" else ENGINES[:1]:
            yield Plant(
                *("8 bits of several scales", f"{use}, {engine}", name),
                lambda x, large=large, small=small: torch.cat([large(x), small(x)], -1),
                lambda x, large=large, small=small, lose=lose: torch.cat(
                    [large(x), lose(small(x))], -1
                ),
                *((normal(4, 12),), (normal(4, 12, seed=1),)),
                {"precision": "int8", "data": [(x,) for x in normal(32, 4, 12, seed=5)]},
                backend=engine,
            )
    offsets = 20 * normal(10, seed=9)
    for name, lose in ONE_SCALE.items():
        yield Plant(
            *("8 bits of several scales", "an embedding of constants", name),
            lambda x: offsets + torch.tanh(x @ WEIGHT),
            lambda x, lose=lose: offsets + lose(torch.tanh(x @ WEIGHT)),
            *((normal(4, 12),), (normal(4, 12, seed=1),)),
            {"precision": "int8", "data": [(x,) for x in normal(32, 4, 12, seed=5)]},
            told=r"less than twice the noise of 8 bits in \[\.\.\.\]",
        )
