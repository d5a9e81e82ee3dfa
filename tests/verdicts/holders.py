"""Models with state, made by rule: each place of a number with each use of the number."""

from __future__ import annotations

import itertools
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .models import Case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The global in which one of the models stores its number.
KEPT = {"number": torch.zeros(())}


class Keeper(nn.Module):
    """A model with every place in which it could store a number."""

    kept: Any = torch.zeros(())

    def __init__(self, use: Callable[[Tensor, Tensor], tuple[Any, Tensor]], place: str) -> None:
        super().__init__()
        self.use, self.place = use, place
        self.attribute = torch.zeros(())
        self.register_buffer("buffer", torch.zeros(3))
        self.parameter = nn.Parameter(torch.zeros(3))
        self.inner = nn.BatchNorm1d(4)
        self.dict, self.list = {"number": torch.zeros(())}, [torch.zeros(())]
        self.helper = SimpleNamespace(number=torch.zeros(()), cache={"layer": torch.zeros(())})

    def in_a_global(self) -> dict[str, Tensor]:
        """Return the global dict, as a method in a model's own file would."""
        return KEPT

    def forward(self, x: Tensor) -> Tensor:
        read, write = PLACES[self.place]
        output, new = self.use(x, read(self))
        with torch.no_grad():
            write(self, new.detach())
        return output


#: The places of a number: functions that read and replace it.
PLACES: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Tensor], Any]]] = {
    "an attribute": (lambda m: m.attribute, lambda m, new: setattr(m, "attribute", new)),
    "a buffer": (lambda m: m.buffer[1], lambda m, new: m.buffer[1].copy_(new)),
    "a parameter": (lambda m: m.parameter[1], lambda m, new: m.parameter[1].copy_(new)),
    "an inner module": (
        lambda m: m.inner.running_mean[0],
        lambda m, new: m.inner.running_mean[0].copy_(new),
    ),
    "a dict": (lambda m: m.dict["number"], lambda m, new: m.dict.update(number=new)),
    "a list": (lambda m: m.list[-1], lambda m, new: m.list.append(new)),
    "an object": (lambda m: m.helper.number, lambda m, new: setattr(m.helper, "number", new)),
    "a dict of an object": (
        lambda m: m.helper.cache["layer"],
        lambda m, new: m.helper.cache.update(layer=new),
    ),
    "its class": (lambda m: type(m).kept, lambda m, new: setattr(type(m), "kept", new)),
    "a global": (
        lambda m: m.in_a_global()["number"],
        lambda m, new: m.in_a_global().update(number=new),
    ),
}
#: The uses of a number: the output, and the next number.
USES: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "a count": lambda x, kept: (x * (1 + kept), kept + 1),
    "the first": lambda x, kept: (
        x - torch.where(kept == 0, x.mean(), kept),
        torch.where(kept == 0, x.mean(), kept),
    ),
    "the last": lambda x, kept: (x - kept, x.mean()),
    "a mean": lambda x, kept: (x - kept, 0.5 * kept + 0.5 * x.mean()),
}
#: A number that is stored and does not affect the output.
UNREAD: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "a count of calls": lambda x, kept: (x * 2, kept + 1),
}


def keepers(uses: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Yield the name and builder of a model for each use and place, each with its own class."""
    for (use, each), place in itertools.product(uses.items(), PLACES):
        if uses is UNREAD and place == "a parameter":
            continue  # a deployment does not copy parameters, so there is no verdict on them
        yield f"{use} in {place}", partial(_keeper, each, place)


def _keeper(use: Any, place: str) -> Case:
    KEPT["number"] = torch.zeros(())
    new = type("Fresh", (Keeper,), {"kept": torch.zeros(())})
    return Case(new(use, place).eval(), torch.linspace(-1, 3, 8).reshape(2, 4))
