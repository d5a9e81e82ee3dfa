"""Recurrent layers that the engines do not implement, on every CPU engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from pathlib import Path


class Projected(nn.Module):
    """A bidirectional LSTM with projections, whose initial states are inputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm = nn.LSTM(4, 6, batch_first=True, bidirectional=True, proj_size=3)

    def forward(self, x, hidden, cell):
        output, (hidden, cell) = self.lstm(x, (hidden, cell))
        return {"output": output, "hidden": hidden, "cell": cell}


class Packed(nn.Module):
    """An LSTM on packed sequences of different lengths."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm = nn.LSTM(4, 6, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], True)[0]


LENGTHS = (torch.randn(2, 5, 4), torch.tensor([3, 5]))


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize(
    ("backend", "export"),
    [
        ("onnxruntime", {"exporter": "torchscript"}),
        ("openvino", {}),
        ("ncnn", {}),
    ],
)
def test_lstm_with_projections_is_verified(backend: str, export: dict, tmp_path: Path) -> None:
    inputs = (torch.randn(2, 3, 4), torch.randn(2, 2, 3), torch.randn(2, 2, 6))
    deployment = eb.deploy(
        Projected(), inputs, backend=backend, work_dir=tmp_path / "out", export=export
    )
    assert deployment.verdict == "verified"


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_packed_sequences_match_at_other_lengths(backend: str, tmp_path: Path) -> None:
    model = Packed()
    deployment = eb.deploy(
        model,
        LENGTHS,
        backend=backend,
        work_dir=tmp_path / "out",
        export={"exporter": "torchscript"},  # dynamo refuses packed sequences, and is tried first
    )
    assert deployment.verdict == "verified"
    given = (LENGTHS[0], torch.tensor([4, 2]))
    with torch.no_grad():
        wanted = model(*given)
    found = eb.load(tmp_path / "out")({"x": given[0].numpy(), "lengths": given[1].numpy()})
    torch.testing.assert_close(torch.as_tensor(found["output"]), wanted, rtol=1e-4, atol=1e-5)


def test_ncnn_refuses_packed_sequences(tmp_path: Path) -> None:
    message = "a size or a branch depends on the inputs' values"
    with pytest.raises(ConversionError, match=message):
        eb.deploy(Packed(), LENGTHS, backend="ncnn", work_dir=tmp_path / "out")
    assert not (tmp_path / "out").exists()
