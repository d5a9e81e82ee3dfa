"""Values that users send and an example does not hold: bytes, small numbers, seconds."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from .plant import ENGINES, Plant, X, normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .plant import Model

    Mistake = Callable[[Tensor], Tensor]

#: What a sentence must match to tell of the input's values.
TOLD = "'x'"
KERNEL = normal(4, 3, 3, 3, seed=31) / 3
PIXELS = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(32))
IMAGED: dict[str, Model] = {
    "convolution": lambda x: functional.conv2d(x, KERNEL),
    "mean": lambda x: x.mean((2, 3)),
    "pool": lambda x: functional.max_pool2d(x, 2),
    "gray": lambda x: (x * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(1),
}
PIXEL_MISTAKES: dict[str, Mistake] = {
    "no more than 64": lambda x: x.clamp(max=64),
    "no more than a signed byte": lambda x: x.clamp(-128, 127),
}
#: A model whose numbers depend on an eps, with the eps.
SMALL: dict[str, Callable[[Tensor, float], Tensor]] = {
    "root mean square": lambda x, eps: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps),
    "layer norm": lambda x, eps: functional.layer_norm(x, x.shape[-1:], eps=eps),
    "share": lambda x, eps: x / (x.abs().sum(-1, keepdim=True) + eps**0.5),
    "unit length": lambda x, eps: x / (x.norm(dim=-1, keepdim=True) + eps**0.5),
    "logarithm": lambda x, eps: torch.log(x.square() + eps) / 9,
}
SMALL_MISTAKES = {"a larger eps": 1e-5, "a smaller eps": 1e-8}
SECONDS = torch.linspace(0, 10, 12, dtype=torch.float64).reshape(2, 6)
LATER = 1.7e9 + torch.linspace(0, 86400, 12, dtype=torch.float64).reshape(2, 6)
TIMED: dict[str, Model] = {
    "steps": lambda x: x.diff(dim=-1),
    "time of day": lambda x: torch.sin(x * (2 * torch.pi / 86400)),
    "since the first": lambda x: x - x[:, :1],
    "the hour's seconds": lambda x: x - torch.floor(x / 3600) * 3600,
}
TIME_MISTAKES: dict[str, Mistake] = {
    "in single precision": lambda x: x.to(torch.float32).to(torch.float64),
    "no more than 31 bits of half seconds": lambda x: x.clamp(max=2**30),
}
PRODUCT = normal(4, 4, seed=33) / 4
WIDE: dict[str, Model] = {
    "product": lambda x: x @ PRODUCT,
    "mean": lambda x: x.mean(1),
    "maximum": lambda x: x.amax(1),
}
WIDE_MISTAKES: dict[str, Mistake] = {
    "no more than 64": lambda x: x.clamp(-64, 64),
    "no more than squares below 65504": lambda x: x.clamp(-255, 255),
}


def values() -> Iterator[Plant]:
    """Plants that are right for the example's values, and wrong for others in use."""
    families: list[tuple[str, dict[str, Any], dict[str, Mistake], Tensor, Tensor, dict[str, Any]]]
    families = [
        (
            "bytes for an example of rand",
            IMAGED,
            PIXEL_MISTAKES,
            PIXELS,
            (PIXELS * 255).round(),
            {},
        ),
        ("seconds in double precision", TIMED, TIME_MISTAKES, SECONDS, LATER, {}),
        ("wide values in fp16", WIDE, WIDE_MISTAKES, X, X * 300, {"precision": "fp16"}),
    ]
    for kind, uses, mistakes, example, shown, options in families:
        for (place, (use, right)), (name, mistake) in itertools.product(
            enumerate(uses.items()), mistakes.items()
        ):
            for engine in ENGINES if place == 0 else ENGINES[:1]:
                yield Plant(
                    *(kind, f"{use}, {engine}", name, right, _after(right, mistake)),
                    *((example,), (shown,), options, True, TOLD, engine, True),
                )
    for (use, model), (name, eps) in itertools.product(SMALL.items(), SMALL_MISTAKES.items()):
        for engine in ENGINES if use == "layer norm" else ENGINES[:1]:
            yield Plant(
                *("a thousandth of the example", f"{use}, {engine}", name),
                lambda x, model=model: model(x, 1e-6),
                lambda x, model=model, eps=eps: model(x, eps),
                *((X,), (X / 1000,), {}, True, TOLD, engine, True),
            )


def _after(right: Model, mistake: Mistake) -> Model:
    return lambda x: right(mistake(x))
