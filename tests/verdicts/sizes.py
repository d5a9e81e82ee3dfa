"""Open sizes that are equal in the example, and a size that may be 0."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from .plant import ENGINES, Plant, X, normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

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


# -- sizes between others --------------------------------------------------------------------------

#: What a sentence must match to tell of sizes that were not compared.
TOLD = r"'(height|width)' is|\b(height|width)\b.*\b(multiples?|equal|even|only|not compared)\b"


def _is(size: Any, other: Any) -> Any:
    """1 if two sizes are equal, otherwise 0, in the arithmetic that a graph has for sizes."""
    return 1 - (1 + abs(size - other) - abs(1 - abs(size - other))) / 2


#: 1 for the sizes at which a mistake is made, otherwise 0.
WHERE: dict[str, Callable[[Any, Any], Any]] = {
    "at the channels' size": lambda h, w: _is(h, 6),
    "at even sizes": lambda h, w: 1 - (h - h // 2 * 2),
    "at multiples of eight": lambda h, w: _is(h // 8 * 8, h),
    "where both are equal": _is,
    "at twice the other": lambda h, w: _is(h, 2 * w),
    "at 16": lambda h, w: _is(h, 16),
    "at 1": lambda h, w: _is(h, 1),
}
#: Sizes at which each is made.
SHOWN_AT = ((6, 9), (10, 9), (24, 9), (12, 12), (22, 11), (16, 9), (1, 9))
KERNEL = normal(4, 6, 3, 3, seed=6) / 6
BETWEEN: dict[str, Model] = {
    "row means": lambda x: x.mean(-1),
    "grid": lambda x: x + torch.arange(x.shape[-2])[:, None] / 9,
    "convolution": lambda x: functional.conv2d(x, KERNEL, padding=1),
    "attention": lambda x: torch.softmax(x.flatten(2).mT @ x.flatten(2) / 9, -1).amax(-1),
}


def between() -> Iterator[Plant]:
    """Plants that are wrong at some sizes between the smallest and the largest."""
    options = {"dynamic": {"x": {2: ("height", 1, 32), 3: ("width", 2, 32)}}}
    for (use, right), ((name, where), shape) in itertools.product(
        BETWEEN.items(), zip(WHERE.items(), SHOWN_AT, strict=True)
    ):
        for engine in ENGINES if use == "row means" else ENGINES[:1]:
            yield Plant(
                *("sizes between others", f"{use}, {engine}", name),
                *(right, _sometimes(right, where)),
                *((normal(1, 6, 7, 9),), (normal(1, 6, *shape),)),
                *(options, True, TOLD, engine, True),
            )


def _sometimes(right: Model, where: Mistake) -> Model:
    """The right model, which takes its channels in reverse at some sizes."""

    def wrong(x: Tensor) -> Tensor:
        share = where(x.shape[2], x.shape[3])
        return right(x) * (1 - share) + right(x.flip(1) + 0.5) * share

    return wrong


STRIDE = 32
STRIDED: dict[str, Model] = {
    "means of patches": lambda x: x.unflatten(-1, (-1, STRIDE)).mean(-1),
    "the largest of patches": lambda x: x.unflatten(-1, (-1, STRIDE)).amax((-1, 2)),
    "patches in turn": lambda x: x.unflatten(-1, (-1, STRIDE)).mT.flatten(-2) + x,
}
STRIDED_WHERE: dict[str, tuple[Callable[[Any], Any], int]] = {
    "at 96": (lambda w: _is(w, 96), 96),
    "at odd multiples": (lambda w: 1 - _is(w // 64 * 64, w), 96),
    "beyond the example": (lambda w: 1 - _is((w + 64 - abs(w - 64)) / 2, w), 128),
    "below the example": (lambda w: _is(w, 32), 32),
}


def multiples() -> Iterator[Plant]:
    """Plants of models that take multiples of 32, wrong at some of them."""
    options = {"dynamic": {"x": {3: ("width", 32, 256)}}}
    for (use, right), (name, (where, size)) in itertools.product(
        STRIDED.items(), STRIDED_WHERE.items()
    ):
        yield Plant(
            *("multiples of 32", use, name),
            *(right, _sometimes(right, lambda h, w, where=where: where(w))),
            *(
                (normal(1, 2, 2, 64),),
                (normal(1, 2, 2, size),),
                options,
                True,
                TOLD,
                ENGINES[0],
                True,
            ),
        )
