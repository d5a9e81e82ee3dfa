"""A data set on the command line: for calibration, for verification, and recorded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run

NET = """
import torch
from torch import nn

def build():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4)
    )
    return model.eval(), torch.rand(1, 1, 8, 8)
"""


@pytest.fixture
def images(here: Path) -> Path:
    (here / "net.py").write_text(NET)
    values = np.random.default_rng(0).random((100, 1, 1, 8, 8)).astype(np.float32)
    np.savez(here / "images.npz", input=values, target=np.arange(100))
    return here / "images.npz"


def test_an_artifact_is_verified_on_items(cli: Run, images: Path) -> None:
    ran = cli(
        *("deploy", "net.py:build", "--backend", "onnxruntime", "--work-dir", "out"),
        *("--data", images.name, "--take", "5", "--seed", "1", "--json"),
    )
    assert ran.code == 0, ran.err
    manifest = json.loads(ran.out)["manifest"]
    assert (manifest["data"]["source"], manifest["data"]["count"]) == ("images.npz", 5)
    labels = manifest["verification"]["basis"]["labels"]
    items = [label for label in labels if label.startswith("item ")]
    assert items == [f"item {number}" for number in manifest["data"]["indices"]]
    images.unlink()
    assert cli("verify", "out").code == 0, "the items are recorded"


def test_int8_is_calibrated_with_all_and_verified_on_some(cli: Run, images: Path) -> None:
    ran = cli(
        *("deploy", "net.py:build", "--backend", "onnxruntime", "--work-dir", "out"),
        *("--precision", "int8", "--data", images.name),
    )
    assert ran.code == 0, ran.err
    assert '"output"' in ran.out
    assert "dB above noise on 64 items" in ran.out
    manifest = json.loads((images.parent / "out" / "manifest.json").read_text())
    assert manifest["data"]["count"] == 100
    assert manifest["receipt"]["precision"] == "int8"


def test_model_without_an_example_uses_a_data_set_item(cli: Run, images: Path) -> None:
    text = (images.parent / "net.py").read_text().replace(", torch.rand(1, 1, 8, 8)", "")
    (images.parent / "net.py").write_text(text)
    ran = cli("deploy", "net.py:build", "--backend", "onnxruntime", "--data", images.name)
    assert ran.code == 0, ran.err
    ran = cli("inspect", "net-build-onnxruntime")
    assert "input     input float32[1, 1, 8, 8]" in ran.out
    assert "data      images.npz, 64 items, digest " in ran.out


@pytest.mark.parametrize(
    ("flags", "message", "hint"),
    [
        (
            ["--precision", "int8"],
            "precision int8 requires calibration data",
            "--data FILE",
        ),
        (["--take", "3"], "--take requires --data", "add --data FILE.npz"),
        (["--data", "nowhere.npz"], "no data set 'nowhere.npz'", "expected an .npz file"),
        (["--data", "images.npz", "--take", "0"], "take: expected 1 or more, found 0", ""),
        (["--data", "net.py:images"], "'net.py:images': there is no 'images' in 'net.py'", ""),
        (["--data", "wrong.npz"], "item 0 of 'wrong.npz': input 'input' has size 9", ""),
    ],
)
def test_invalid_data_flags_are_refused(
    cli: Run, images: Path, flags: list[str], message: str, hint: str
) -> None:
    np.savez(images.parent / "wrong.npz", input=np.ones((3, 1, 1, 9, 9), np.float32))
    ran = cli("deploy", "net.py:build", "--backend", "onnxruntime", "--work-dir", "out", *flags)
    assert ran.code == 2
    assert f"error: {message}" in ran.err
    assert hint in ran.err
    assert not (images.parent / "out").exists()
