"""Operators written in Python are traced through."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn


class Doubled(torch.autograd.Function):
    """With a context, as most are written."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2 if not ctx.needs_input_grad[0] else x


class Halved(torch.autograd.Function):
    """With its context set up apart."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)


class Net(nn.Module):
    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function.apply(self.linear(x))


@pytest.mark.parametrize("function", [Doubled, Halved])
def test_an_autograd_function_is_traced_through(deploy, function):
    deployed = deploy(Net(function), torch.randn(1, 4), export={"ir": "torchscript"})
    assert deployed.verdict == "verified"
