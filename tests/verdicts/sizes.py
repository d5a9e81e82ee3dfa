"""Open sizes that are equal in the example, and a size that may be 0."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch

from .plant import Plant, X, normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .plant import Model

    Mistake = Callable[..., Any]

SIZED: dict[str, Model] = {
    "row means": lambda x, h, w: x.sum(-1) / w,
    "column means": lambda x, h, w: x.sum(-2) / h,
    "mean": lambda x, h, w: x.sum((-1, -2)) / (h * w),
    "grid": lambda x, h, w: x + torch.arange(x.shape[-1]) / w + torch.arange(x.shape[-2])[:, None],
    "ratio": lambda x, h, w: x * (h / w),
    "norm": lambda x, h, w: x / (w**0.5),
}
SIZE_MISTAKES: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "exchanged": lambda h, w: (w, h),
    "the example's height": lambda h, w: (8, w),
    "the example's width": lambda h, w: (h, 8),
    "the height twice": lambda h, w: (h, h),
    "the width twice": lambda h, w: (w, w),
    "their mean": lambda h, w: ((h + w) / 2, (h + w) / 2),
    "even ones": lambda h, w: (h // 2 * 2, w // 2 * 2),
    "multiples of four": lambda h, w: ((h + 3) // 4 * 4, (w + 3) // 4 * 4),
}
#: The dimensions of the two sizes, the example, and a second input of equal ranges.
LAYOUTS = {
    "height and width": ((2, 3), (1, 3, 8, 8), (1, 3, 5, 11)),
    "batch and length": ((0, 1), (8, 8, 3), (5, 11, 3)),
}


def sizes() -> Iterator[Plant]:
    """Plants that use one size in the place of another."""
    for (layout, (axes, *shapes)), (use, sized), (name, mistake) in itertools.product(
        LAYOUTS.items(), SIZED.items(), SIZE_MISTAKES.items()
    ):
        dims = {axis: (f"size_{axis}", 2, 64) for axis in axes}
        inputs = ((normal(*shape),) for shape in shapes)
        right = _sized(sized, axes, lambda h, w: (h, w))
        yield Plant(
            *("sizes apart", f"{use}, {layout}", name, right, _sized(sized, axes, mistake)),
            *inputs,
            {"dynamic": {"x": dims}},
        )


def _sized(sized: Model, axes: tuple[int, ...], sizes: Mistake) -> Model:
    return lambda x: sized(x.movedim(axes, (-2, -1)), *sizes(*(x.shape[axis] for axis in axes)))


PASTS: dict[str, Model] = {
    "positions": lambda x, past, p: x + (torch.arange(x.shape[1]) + p)[:, None] / 9,
    "mean": lambda x, past, p: (x.sum(1) + past.sum(1)) / (x.shape[1] + p),
    "attention": lambda x, past, p: (
        torch.softmax(x @ torch.cat([past, x], 1).mT / (p + 1), -1) @ torch.cat([past, x], 1)
    ),
}
PAST_MISTAKES: dict[str, Mistake] = {
    "at least one": lambda p: (p + 1 + abs(p - 1)) / 2,
    "the example's": lambda p: 4,
    "at most eight": lambda p: (p + 8 - abs(p - 8)) / 2,
}


def pasts() -> Iterator[Plant]:
    """Plants that assume a longer or shorter past."""
    for (use, right), (name, mistake) in itertools.product(PASTS.items(), PAST_MISTAKES.items()):
        yield Plant(
            *("a past that may be empty", use, name),
            lambda x, past, right=right: right(x, past, past.shape[1]),
            lambda x, past, right=right, mistake=mistake: right(x, past, mistake(past.shape[1])),
            (X, normal(2, 4, 4)),
            (X, normal(2, 12, 4) if "most" in name else normal(2, 0, 4)),
            {"dynamic": {"other": {1: ("past", 0, 16)}}},
        )
