"""A folder of pictures where int8 needs data: calibrated with, ranked on, evaluated on."""

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
import enginebay_vision as vision

def build():
    model = nn.Sequential(nn.Conv2d(3, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    nn.init.dirac_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    steps = (vision.Resize(16, 16, fit="cover"), vision.Crop(16, 16))
    image = vision.ImageInput(steps=steps, mean=(0.5,), std=(0.25,))
    return model, None, vision.ImageClassification(image=image, classes=("red", "green", "blue"))
"""


@pytest.fixture
def photos(here: Path) -> Path:
    from PIL import Image

    (here / "net.py").write_text(NET)
    noise = np.random.default_rng(0)
    for number, name in enumerate(("red", "green", "blue")):
        (here / "photos" / name).mkdir(parents=True)
        for count in range(4):
            pixels = noise.integers(0, 120, (20, 30, 3)).astype(np.uint8)
            pixels[..., number] += 100
            Image.fromarray(pixels).save(here / "photos" / name / f"{count}.png")
    return here / "photos"


@pytest.mark.parametrize("backend", ["onnxruntime", "ncnn"])
def test_an_artifact_names_what_is_in_a_picture(cli: Run, photos: Path, backend: str) -> None:
    line = ("deploy", "net.py:build", "--backend", backend, "--work-dir", "out", "--probes", "0")
    ran = cli(*line, "--data", "photos", "--take", "3")
    assert ran.code == 0, ran.err
    ran = cli("run", "out", "--image", "photos/blue/2.png", "--json")
    assert json.loads(ran.out)["images"][0]["found"][0]["name"] == "blue"


def test_int8_is_calibrated_and_ranked_on_pictures(cli: Run, photos: Path) -> None:
    options = ("--backend", "onnxruntime", "--precision", "int8", "--data", "photos")
    ran = cli("deploy", "net.py:build", *options, "--work-dir", "out")
    assert ran.code == 0, ran.err
    ran = cli("evaluate", "out", "--data", "photos", "--metric", "accuracy")
    assert ran.out.splitlines()[1].split()[:3] == ["out", "accuracy", "1"]
    ran = cli("sensitivity", "net.py:build", *options)
    assert ran.code == 0, ran.err
    assert "on 12 items" in ran.out
