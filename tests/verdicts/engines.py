"""Right models on engines with a fault, and on an engine without."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from enginebay_testing import temporary_backend
from tests.faulty_engines import FAULTS, HIDDEN_FAULTS, RIGHT, SOURCE

from .models import Case, Function
from .trial import verdict_of_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: torch.softmax(x, 1),
    "cumsum": lambda x: x.cumsum(0),
    "convolution": lambda x: functional.conv1d(x[None], torch.linspace(-1, 1, 9).reshape(1, 3, 3)),
    "transpose": lambda x: x.mT + 1,
}


def cases() -> Iterator[tuple[str, str, Case]]:
    """Yield each fault for each operation: its name, the method, and the model."""
    return _faulty(FAULTS)


def hidden_cases() -> Iterator[tuple[str, str, Case]]:
    """Yield each fault that other calls, threads, wrappers or loadings show, as ``cases``."""
    return _faulty(HIDDEN_FAULTS)


def _faulty(faults: dict[str, str]) -> Iterator[tuple[str, str, Case]]:
    example = torch.arange(12.0).reshape(3, 4)
    for (fault, method), (name, operation) in itertools.product(faults.items(), OPERATIONS.items()):
        yield f"{name}, on an engine that {fault}", method, Case(Function(operation), example)


def right_cases() -> Iterator[tuple[str, str, Case]]:
    """Yield the same operations for an engine without a fault."""
    for name, operation in OPERATIONS.items():
        yield name, RIGHT, Case(Function(operation), torch.arange(12.0).reshape(3, 4))


def verdict_of_engine(method: str, case: Case) -> str:
    """Return the verdict on a right model, deployed to an engine with this method."""
    with temporary_backend("faulty", SOURCE.format(method=method)):
        return verdict_of_model(case, "faulty")
