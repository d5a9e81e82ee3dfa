"""Functions lowered to the operators that ``dialect`` writes, and compared with torch."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from packages.core.tests.rewriting.lowered import lower
from torch.utils._pytree import tree_leaves

from enginebay_ncnn.dialect.operators import OPERATORS
from enginebay_ncnn.lowerings import lowerings

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.export import ExportedProgram

_TARGET = {"backend": "ncnn", "ir": "torchscript", "operators": OPERATORS, "builtin": True}


@pytest.fixture(scope="session")
def lowered() -> Callable[..., ExportedProgram]:
    """Return a function that lowers a model for ncnn."""

    def run(model: Any, inputs: Any, operators: frozenset[str] = OPERATORS) -> ExportedProgram:
        return lower(model, tuple(inputs), lowerings, **_TARGET | {"operators": operators})[0]

    return run


@pytest.fixture(scope="session")
def check(lowered: Any) -> Callable[..., ExportedProgram]:
    """Return a function that asserts that lowered functions match torch.

    Each case is a function with its input tensors. All cases are in one program, since torch needs
    half a second for each program. Results must be equal if ``exact`` is true.
    """

    def run(*cases: Any, exact: bool = False) -> ExportedProgram:
        # Copies: a tensor that is two inputs of a program torch takes for one.
        inputs = [deepcopy(tensor) for _, *tensors in cases for tensor in tensors]

        def every(*inputs: torch.Tensor) -> list[Any]:
            rest = iter(inputs)
            return [tree_leaves(each(*(next(rest) for _ in own))) for each, *own in cases]

        program = lowered(every, inputs)
        close = {"atol": 0, "rtol": 0} if exact else {"atol": 2e-4, "rtol": 2e-4}
        for mine, own, (_, *tensors) in zip(
            program.module()(*inputs), every(*inputs), cases, strict=True
        ):
            for found, wanted in zip(mine, own, strict=True):
                assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), tensors
                torch.testing.assert_close(
                    found,
                    wanted,
                    **close,
                    msg=lambda text, given=tensors, own=wanted: (
                        f"{text}\n{given} {[x.stride() for x in given]} {own}"
                    ),
                )
        return program

    return run
