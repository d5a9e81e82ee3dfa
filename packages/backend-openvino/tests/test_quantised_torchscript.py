"""TorchScript that torch has quantised computes in 8 bits, and so may OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path

jit: Any = torch.jit
quantization: Any = torch.ao.quantization


@pytest.mark.filterwarnings("ignore")  # torch.ao is deprecated since torch 2.10
def test_file_in_8_bits_is_verified(tmp_path: Path) -> None:
    torch.manual_seed(0)
    image = torch.randn(1, 3, 8, 8)
    layers = (quantization.QuantStub(), nn.Conv2d(3, 4, 3), nn.ReLU(), quantization.DeQuantStub())
    model: Any = nn.Sequential(*layers).eval()
    # Half of the 8-bit range in the weights: with all of it, x86 without VNNI saturates.
    weight = quantization.PerChannelMinMaxObserver.with_args(
        dtype=torch.qint8, qscheme=torch.per_channel_symmetric, quant_min=-64, quant_max=63
    )
    activation = quantization.HistogramObserver.with_args(reduce_range=True)
    model.qconfig = quantization.QConfig(activation=activation, weight=weight)
    prepared = quantization.prepare(model)
    prepared(image)
    jit.script(quantization.convert(prepared)).save(tmp_path / "m.pt")
    deployed = eb.deploy(tmp_path / "m.pt", image, backend="openvino", work_dir=tmp_path / "out")
    assert deployed.verdict == "verified"
