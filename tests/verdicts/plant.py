"""A right model, a wrong one in its place, and inputs that show which is which."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    Model = Callable[..., Any]


@dataclass(frozen=True)
class Plant:
    """A right model, and a wrong one that a rewriter puts in its place.

    Attributes:
        kind: What the example does not show.
        operation: The right model's name.
        name: The wrong one's name; empty for the right model alone.
        example: What it is deployed with.
        shown_by: Inputs like those that the docs say are tried, on which it is wrong.
        options: More arguments of ``deploy``.
        right_is_verified: False where nothing can be said of the right model either.
    """

    kind: str
    operation: str
    name: str
    right: Model
    wrong: Model
    example: tuple[Tensor, ...]
    shown_by: tuple[Tensor, ...]
    options: dict[str, Any] = field(default_factory=dict)
    right_is_verified: bool = True

    def is_wrong(self) -> bool:
        """True if it differs by more than a hundredth of what the right outputs vary by."""
        outputs = (self.right(*self.shown_by), self.wrong(*self.shown_by))
        return any(map(_differ, *map(_as_tuple, outputs)))


def _as_tuple(outputs: Any) -> tuple[Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _differ(right: Tensor, wrong: Tensor) -> bool:
    if right.shape != wrong.shape or not right.is_floating_point():
        return not torch.equal(right, wrong)
    spread = (right - right.mean(0)).abs() if len(right) > 1 else right.std()
    return bool(((right - wrong).abs() > spread / 100).any())


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Numbers of unit spread, the same ones for the same seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


#: A batch of two sequences of seven places, and another one.
X, OTHER_X = normal(2, 7, 4), normal(2, 7, 4, seed=1)
#: A mask with zeros at both ends, and inside.
HOLES = torch.tensor([[0, 1, 1, 0, 1, 1, 0], [1, 1, 0, 1, 1, 1, 0]])
