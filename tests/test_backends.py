"""Every installed backend on the same models, and a second engine as the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run

BACKENDS = [status.name for status in eb.list_backends()]


class Net(nn.Module):
    """Convolution, attention and a second output."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, stride=2)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        tokens = self.conv(image).flatten(2).transpose(1, 2)
        mixed, _ = self.attention(tokens, tokens, tokens, need_weights=False)
        return {"logits": self.head(mixed.mean(1)), "tokens": mixed}


def test_several_backends_are_installed() -> None:
    assert {"onnxruntime", "openvino"} <= set(BACKENDS)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_is_available(backend: str) -> None:
    report = eb.get_backend(backend).check_env()
    assert report.ok, report.failed


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_is_verified(backend: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    deployment = eb.deploy(
        Net(), torch.randn(1, 3, 17, 17), backend=backend, work_dir=tmp_path / "out"
    )
    assert deployment.verdict == "verified"
    assert list(deployment.artifact.manifest.outputs[0].dims or ()) == [1, 5]
    assert eb.verify(tmp_path / "out").verdict == "verified"


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_command_runs_with_the_backend(backend: str, here: Path, shell: Run) -> None:
    (here / "net.py").write_text(
        "import torch\ndef build():\n    return torch.nn.Conv2d(3, 4, 3), torch.randn(1, 3, 8, 8)\n"
    )
    for words in (
        ("deploy", "net.py:build", "--backend", backend, "--work-dir", "out"),
        ("run", "out"),
        ("verify", "out"),
        ("export", "net.py:build", "--backend", backend, "--output", "net.onnx"),
        ("convert", backend, "net.onnx", "--work-dir", "bare"),
        ("check-env", backend),
        ("rewriters", "--backend", backend),
    ):
        ran = shell(*words)
        assert ran.code == 0, f"{words}\n{ran.err}"


def test_second_engine_is_the_reference_for_unknown_operators(tmp_path: Path) -> None:
    spec = [helper.make_tensor_value_info(name, 1, [2, 4]) for name in "xy"]
    bias = onnx.numpy_helper.from_array(np.linspace(-1, 1, 4, dtype=np.float32), "b")
    node = helper.make_node("BiasGelu", ["x", "b"], ["y"], domain="com.microsoft")
    graph = helper.make_graph([node], "gelu", spec[:1], spec[1:], [bias])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "gelu.onnx")
    with pytest.warns(eb.VerdictWarning, match="the reference is a second engine, since onnx's"):
        deployment = eb.deploy(
            tmp_path / "gelu.onnx", backend="onnxruntime", work_dir=tmp_path / "out"
        )
    assert deployment.verdict == "verified"
    assert deployment.verification.reference == "openvino, a second engine"
