"""``evaluate`` and ``benchmark`` say once that an artifact was published although it is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
import enginebay_lab as lab

if TYPE_CHECKING:
    from pathlib import Path


class Net(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_evaluate_and_benchmark_warn_once(loopback: str, tmp_path: Path) -> None:
    rewriters = eb.RewriterSet()
    rewriters.function(f"{__name__}.Net.forward")(lambda ctx, self, x: x * 3)
    artifact = eb.deploy(
        Net(),
        torch.ones(2, 3),
        backend=loopback,
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(rewriters=[rewriters]),
        verify=eb.VerifyOptions(allow_mismatch=True),
    ).artifact
    wrong = f"the recorded verdict of '{artifact.path}' is mismatched"
    data = [({"x": np.ones((2, 3), np.float32)}, np.ones((2, 3)))] * 3
    for measure in (
        lambda: lab.evaluate(artifact, data, "mean-absolute-error"),
        lambda: lab.benchmark(artifact, duration=0.1),
    ):
        with pytest.warns(eb.VerdictWarning) as caught:
            measure()
        assert [str(each.message)[: len(wrong)] for each in caught] == [wrong]
