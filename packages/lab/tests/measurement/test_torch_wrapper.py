"""PyTorch behind the interface of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from enginebay.errors import EnginebayError, ModelSourceError
from enginebay_lab.measurement.torch_wrapper import load_torch

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = torch.nn.Dropout(0.5)
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x, scale):
        return self.linear(self.drop(x)) * scale, x.to(torch.bfloat16)

torch.manual_seed(0)
net = Net()

def build():
    return net, (torch.ones(1, 3), torch.ones(1))
"""


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "wrapped_net.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return "wrapped_net.py:build"


def test_the_model_is_called_by_the_names_of_its_inputs(name: str) -> None:
    x, scale = np.float32([[1, 2, 3]]), np.float32([2])
    wrapper = load_torch(name, {"x": x, "scale": scale})
    first, second = wrapper({"scale": scale, "x": x}).values()
    again, _ = wrapper({"scale": scale * 2, "x": x}).values()
    assert first.shape == (1, 2)
    np.testing.assert_allclose(again, 2 * first, rtol=1e-6)  # and without dropout
    assert second.tolist() == [[1, 2, 3]]  # NumPy has no bfloat16
    wrapper.close()


def test_the_example_replaces_a_missing_input(name: str) -> None:
    x = np.float32([[1, 2, 3]])
    wrapper = load_torch(name, {"x": x})
    ones = load_torch(name, {"x": x, "scale": np.float32([1])})
    np.testing.assert_allclose(
        next(iter(wrapper({"x": x}).values())),
        next(iter(ones({"x": x, "scale": np.float32([1])}).values())),
    )


def test_the_receipt_names_torch_and_its_threads(name: str) -> None:
    receipt = load_torch(name, {"x": np.ones((1, 3), np.float32)}).receipt
    assert receipt.engine == f"torch {torch.__version__}"
    assert (receipt.device, receipt.provider) == ("cpu", "eager")
    assert receipt.details == {"threads": str(torch.get_num_threads())}


def test_what_pytorch_cannot_run_is_refused(name: str, tmp_path: Path) -> None:
    x = {"x": np.ones((1, 3), np.float32)}
    with pytest.raises(ModelSourceError):
        load_torch("nowhere.py:build", x)
    with pytest.raises(EnginebayError, match="y"):
        load_torch(name, {"y": np.ones((1, 3), np.float32)})
