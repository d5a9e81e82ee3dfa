"""Models for tests of diagnosis, and rewriters that are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path

#: A rewriter that is wrong by a percent of what a module computes.
SLIPS = eb.RewriterSet()


@SLIPS.function("torch.nn.functional.gelu")
def _gelu(ctx: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return ctx.origin_func(x, *args, **kwargs) * 1.01


#: A rewriter that is wrong between two modules.
BETWEEN = eb.RewriterSet()


@BETWEEN.function("torch.Tensor.mean")
def _mean(ctx: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return ctx.origin_func(x, *args, **kwargs) + 0.25


class Block(nn.Module):
    """A residual block; its activation may work in place."""

    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.act = act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.act(self.conv(x))


class Net(nn.Module):
    """Blocks, a recurrent layer with a nested result, and a head that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(Block(nn.ReLU(inplace=True)), Block(nn.GELU()), Block(nn.SiLU()))
        self.rnn = nn.LSTM(4, 4, batch_first=True)
        self.head = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, _ = self.rnn(self.body(x).mean(3).transpose(1, 2))
        return self.head(self.head(rows))


def build() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return Net().eval(), torch.randn(1, 4, 6, 6)


def short() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Sigmoid()).eval(), torch.randn(1, 3)


class Absolute(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.abs()


def integers() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Flatten(), Absolute()).eval(), torch.arange(6).reshape(2, 3) - 3


class Whole(nn.Module):
    """A replacement that calls none of the original's modules, and is wrong."""

    def __init__(self, ctx: Any, module: Block) -> None:
        super().__init__()
        self.weight, self.bias = module.conv.weight, module.conv.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.nn.functional.conv2d(x, self.weight, self.bias, padding=1)


class Shy(nn.Module):
    """A module that runs in its model only."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.at_home = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.at_home:
            raise RuntimeError("not alone")
        x = self.first(x)
        return self.second(x + x.mean(-1, keepdim=True))


class Home(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shy = Shy()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.shy.at_home = True
        try:
            return self.shy(x).sigmoid()
        finally:
            self.shy.at_home = False


class Chance(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


def deployed(
    folder: Path, *rewriters: eb.RewriterSet, model: Any = build, probes: int = 1, **given: Any
) -> eb.Artifact:
    """Deploy a model, even if it is wrong, with the backend that needs no engine."""
    return eb.deploy(
        *model(),
        **{"backend": "loopback", **given},
        work_dir=folder / "net",
        export=eb.ExportOptions(exporter="torchscript", rewriters=rewriters),
        verify=eb.VerifyOptions(probes=probes, allow_mismatch=True),
    ).artifact
