"""A TorchScript file that takes down the process that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ConversionError
from enginebay.hooks import ConvertRequest

if TYPE_CHECKING:
    from pathlib import Path


class Segments(nn.Module):
    """Sums of segments without a check of their lengths, as of a graph's nodes."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        far = torch.where(lengths < 5, lengths * 2**40, lengths)
        return torch.segment_reduce(x, "sum", lengths=far, unsafe=True).relu()


@pytest.fixture
def file(tmp_path: Path) -> eb.IRModel:
    example = torch.ones(12), torch.tensor([5, 7])
    options = eb.ExportOptions(ir="torchscript")
    return eb.export(Segments(), example, path=tmp_path / "segments.pt", options=options)


def test_a_crashing_model_is_one_error(file: eb.IRModel, tmp_path: Path) -> None:
    with pytest.raises(ConversionError) as caught:
        eb.convert(file, backend="ncnn", work_dir=tmp_path / "artifact")
    assert str(caught.value) == (
        "the TorchScript does not run on x float32[12], lengths int64[2]: "
        "its process ended with SIGSEGV before it returned; it printed nothing"
    )


def test_a_model_that_crashes_on_random_inputs_runs_on_the_callers(
    file: eb.IRModel, tmp_path: Path
) -> None:
    backend = eb.get_backend("ncnn")
    sample = {"x": np.ones(12, np.float32), "lengths": np.array([5, 7])}
    small = sample | {"lengths": np.array([0, 1])}
    request = ConvertRequest(
        ir=file, params=backend.Params(), work_dir=tmp_path, samples=(small, sample)
    )
    assert backend.unsupported_operators(request) == {
        "aten::segment_reduce": "ncnn has no such layer, and Enginebay has no lowering"
    }
