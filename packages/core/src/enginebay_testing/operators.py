"""Tests with networks of one operator each, for ``--operators``.

A test passes if the backend verifies the network, is skipped if the backend refuses it, and fails
otherwise.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import enginebay as eb
from enginebay.errors import EnginebayError, NotVerifiedError
from enginebay_testing.command_line import CommandLineBackend
from enginebay_testing.conformance.kit import expect
from enginebay_testing.conformance.suite import UnderTest

if TYPE_CHECKING:
    import torch

    from enginebay_testing.conformance.kit import Kit

#: The networks of each group, separated by lines and semicolons.
OPERATORS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def cases() -> dict[str, str]:
    """Return the text of each network by name: ``reductions: x.sum()`` → ``x.sum()``."""
    lines = [(group, line) for group, text in OPERATORS.items() for line in text.splitlines()]
    networks = [(group, text.strip()) for group, line in lines for text in line.split(";")]
    return {f"{group}: {text}": text for group, text in networks if text}


def build(text: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """Return the network for a text like ``x.sum()`` or ``nn.ReLU() x``, and its inputs by name."""
    import torch
    from torch import nn
    from torch.nn import functional

    random = torch.Generator().manual_seed(0)
    x, y = (torch.randn(1, 3, 4, generator=random) for _ in "xy")
    number = torch.arange(12).reshape(1, 3, 4)
    inputs = {
        "x": x,
        "y": y,
        "p": y.abs() + 0.2,  # positive
        "u": torch.sin(3 * x) * 0.9,  # between -1 and 1, for asin and atanh
        "m": y > 0,  # a mask
        "n": number * 5 % 17 - 8,  # integers of both signs
        "k": number % 3 + 1,  # integers that can be divisors
        "i": number * 7 % 3,  # indices of an axis of size 3
        "s": torch.randn(1, 4, 4, generator=random) + 4 * torch.eye(4),  # an invertible matrix
        "image": torch.randn(1, 3, 8, 8, generator=random),
        "steps": torch.randn(1, 5, 8, generator=random),
    }
    modules = {"torch": torch, "nn": nn, "F": functional}

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            # "nn.Linear(4, 2) x": a module and its inputs; otherwise an expression of the inputs.
            module, _, names = text.rpartition(") ") if text.startswith("nn.") else ("", "", text)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                self.module = eval(f"{module})", modules) if module else None  # noqa: S307  # from the table
            call = f"module({', '.join(names.split())})" if module else text
            self.code = compile(call, "<operator>", "eval")
            self.names = [name for name in inputs if name in self.code.co_names]

        def forward(self, *tensors: torch.Tensor) -> object:
            feed = dict(zip(self.names, tensors, strict=True))
            return eval(self.code, {**modules, "module": self.module}, feed)  # noqa: S307  # as above

    network = Network().eval()
    return network, {name: inputs[name] for name in network.names}


class TestOperators(CommandLineBackend, UnderTest):
    """Deploys each network to the backend that ``--backend`` names."""

    @pytest.mark.parametrize("name", cases())
    def test_operators(self, kit: Kit, name: str, tmp_path: Path) -> None:
        """A network of one operator is verified, or the backend refuses it with an error."""
        kit.require_engine()
        network, inputs = build(cases()[name])
        kit.require_dtypes(*(str(x.dtype).removeprefix("torch.") for x in inputs.values()))
        try:
            deployment = eb.deploy(
                network, [*inputs.values()], backend=kit.name, work_dir=tmp_path / "a"
            )
        # A refusal is allowed, a wrong number is a failure.
        except NotVerifiedError:
            raise
        except EnginebayError as err:
            kit.skip(str(err))
        expect(f"verdict ({deployment.verification.summary()})", deployment.verdict, "verified")
