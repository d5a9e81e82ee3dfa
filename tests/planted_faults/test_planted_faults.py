"""A few of the planted errors, and a wrong fusion of ONNX Runtime in a real model."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
import torch
from packaging.version import Version

import enginebay as eb
import enginebay_lab as lab
from tests.planted_faults.faults import FAULTS, search

if TYPE_CHECKING:
    from pathlib import Path

    from tests.planted_faults.faults import PlantedFault


@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.model in ("qwen3", "gpt2", "resnet")], ids=str
)
@pytest.mark.one_in(3)
def test_bisection_names_the_planted_module(fault: PlantedFault) -> None:
    found = search(fault)
    assert (found.verdict, found.bisection.module) == ("mismatched", fault.module)
    assert found.bisection.step == "export"


def test_faults_cover_twenty_models() -> None:
    assert len({fault.model for fault in FAULTS}) == 20


def bit() -> Any:
    from transformers import BitConfig, BitForImageClassification

    torch.manual_seed(0)
    config = BitConfig(embedding_size=32, hidden_sizes=[128, 128], depths=[1, 1], num_labels=3)
    return BitForImageClassification(config).eval()


@pytest.mark.parametrize("level", ["basic", "all"])
def test_bit_is_verified_on_onnxruntime(tmp_path: Path, level: str) -> None:
    deployment = eb.deploy(
        *(bit(), torch.randn(1, 3, 32, 32)),
        backend="onnxruntime",
        work_dir=tmp_path / "bit",
        params={"graph_optimization": level},
        export=eb.ExportOptions(exporter="torchscript"),
    )
    assert deployment.verdict == "verified"


@pytest.mark.skipif(
    Version(version("onnxruntime")) >= Version("1.32"),
    reason="ONNX Runtime 1.32 fixed this fusion",
)
def test_bisection_names_two_nodes_wrong_only_together(tmp_path: Path) -> None:
    """With the fusion enabled, each of the two nodes is right alone."""
    model = bit()
    artifact = eb.deploy(
        *(model, torch.randn(1, 3, 32, 32)),
        backend="onnxruntime",
        work_dir=tmp_path / "bit",
        params={"session_options": {"optimization.disable_specified_optimizers": ""}},
        export=eb.ExportOptions(exporter="torchscript"),
        verify=eb.VerifyOptions(allow_mismatch=True),
    ).artifact
    bisection = lab.bisect(artifact, model)
    assert (bisection.module, bisection.operator, bisection.step) == (
        *("bit.embedder.pooler", "MaxPool"),
        "engine",
    )
    assert bisection.together == (
        "/model/bit/embedder/pad/Pad",
        "/model/bit/embedder/pooler/MaxPool",
    )
