"""Models of two inputs that a rewriter makes wrong."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Compute = Callable[..., torch.Tensor]


class Model(nn.Module):
    def __init__(self, right: Compute) -> None:
        super().__init__()
        self.right = right

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return self.right(x, other)


def judge(
    right: Compute,
    wrong: Compute,
    example: tuple[torch.Tensor, ...],
    folder: Path,
    *,
    probes: Any = 8,
    **options: Any,
) -> eb.Verification:
    """Deploy a model that a rewriter replaces by ``wrong``; return the verdict on it."""
    rewriters = eb.RewriterSet()
    rewriters.function(f"{__name__}.Model.forward")(lambda ctx, self, *args: wrong(*args))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eb.VerdictWarning)
        return eb.deploy(
            Model(right),
            example,
            work_dir=folder / "out",
            export=eb.ExportOptions(rewriters=[rewriters]),
            verify=eb.VerifyOptions(allow_mismatch=True, probes=probes),
            **options,
        ).verification
