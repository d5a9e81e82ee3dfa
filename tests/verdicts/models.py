"""Models in which Python code branches on data: an exporter records only one path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable


class Function(nn.Module):
    """A function of one, two or three inputs as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, other: Any = None, third: Any = None) -> Any:
        return call(self.function, *(each for each in (x, other, third) if each is not None))


def call(function: Callable[..., Any], *inputs: Tensor) -> Any:
    """Call the function of a :class:`Function`: the target of wrong rewriters."""
    return function(*inputs)


class Cached(nn.Module):
    """Stores the result of the first call for all later calls."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.kept is None:
            self.kept = x.abs().sum() + 1
        return x / self.kept


def repeated(x: Tensor) -> Tensor:
    for _ in range(int(x.abs().max()) + 1):
        x = x + 1
    return x


def in_numpy(x: Tensor) -> Tensor:
    return x + torch.from_numpy(np.sort(x.detach().numpy().copy(), axis=-1))


@dataclass(frozen=True)
class Case:
    """A model with its example.

    Attributes:
        model: The model.
        example: Its example.
        options: More arguments of ``deploy``.
        told: What an error must match to name why the engine differs from the model, although both
            are right; empty if there is no such cause.
    """

    model: nn.Module
    example: Any
    options: dict[str, Any] = field(default_factory=dict)
    told: str = ""


_BRANCHES: dict[str, Callable[[Tensor], Tensor]] = {
    "sign": lambda x: x * 2 if x.sum() > 0 else x - 100,
    "float": lambda x: x * float(x.max()),
    "range": repeated,
    "item": lambda x: x.cumsum(1) * int(x[0, 0].abs().item() * 10),
    "numpy": in_numpy,
    "any": lambda x: x - 1 if bool((x > 1.5).any()) else x + 1,
    "tolist": lambda x: x * torch.tensor(x[0].tolist()),
    "equal": lambda x: x + 1 if torch.equal(x, x.abs()) else x - 1,
}

_EXAMPLES = {"ones": torch.ones(2, 4), "a ramp": torch.arange(8.0).reshape(2, 4) / 4}

#: Each model on each example, and other models that no engine can reproduce.
MODELS: dict[str, Case] = {
    f"{name} of {kind}": Case(Function(function), example)
    for name, function in _BRANCHES.items()
    for kind, example in _EXAMPLES.items()
} | {
    "a cache": Case(Cached(), torch.ones(2, 4)),
    "chance": Case(Function(lambda x: x + torch.rand(())), torch.ones(2, 4)),
}
