"""A right model, a wrong model in its place, and inputs that show the difference."""

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
    """A right model, and a wrong model that a rewriter puts in its place.

    Attributes:
        kind: The kind of error, which the example does not show.
        operation: The right model's name.
        name: The wrong model's name; empty for the right model alone.
        example: The example inputs of the deployment.
        shown_by: Inputs like the probes in the docs, on which the wrong model differs.
        options: More arguments of ``deploy``.
        right_is_verified: False if the right model does not get a verdict either.
        told: What a sentence of a verdict must match to tell of this error: the input, the size or
            the decision in which it is; empty if no sentence can.
        backend: The engine.
        beyond: True if the error is in values or sizes unlike the example's, so that the verified
            range can tell of it.
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
    told: str = ""
    backend: str = "onnxruntime"
    beyond: bool = False

    @property
    def title(self) -> str:
        """The kind, the right model's name and the wrong model's."""
        return ": ".join(filter(None, (self.kind, self.operation, self.name)))

    def is_wrong(self) -> bool:
        """True if the outputs differ by more than a hundredth of the right outputs' spread."""
        outputs = (self.right(*self.shown_by), self.wrong(*self.shown_by))
        return any(map(_differ, *map(_as_tuple, outputs)))


def _as_tuple(outputs: Any) -> tuple[Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _differ(right: Tensor, wrong: Tensor) -> bool:
    if right.shape != wrong.shape or not right.is_floating_point():
        return not torch.equal(right, wrong)
    spread = (right - right.mean(0)).abs() if len(right) > 1 else right.std(correction=0)
    is_near = (right == wrong) | ((right - wrong).abs() <= spread / 100)
    return not bool((is_near | (right.isnan() & wrong.isnan())).all())


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Return normal random numbers that depend on the seed alone."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


#: The engines of the plants that do not take long.
ENGINES = ("onnxruntime", "openvino")
#: Two batches of two sequences with seven places.
X, OTHER_X = normal(2, 7, 4), normal(2, 7, 4, seed=1)
#: A mask with zeros at both ends, and inside.
HOLES = torch.tensor([[0, 1, 1, 0, 1, 1, 0], [1, 1, 0, 1, 1, 1, 0]])
