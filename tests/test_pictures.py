"""Pictures through real engines: every task from a picture to its answer, and int8 on folders."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import enginebay as eb

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


TASKS = """
import torch
from torch import nn
import enginebay_vision as vision

SMALL = vision.ImageInput(steps=(vision.Resize(16, 16),))

def masks():
    task = vision.SemanticSegmentation(image=SMALL, classes=("red", "green", "blue"))
    return nn.AvgPool2d(2), None, task
"""


def deployed(cli: Run, here: Path, name: str) -> None:
    """Deploy one of :data:`TASKS` on ONNX Runtime, with the pictures in ``set``."""
    (here / "tasks.py").write_text(TASKS)
    line = ("deploy", f"tasks.py:{name}", "--backend", "onnxruntime", "--work-dir", "out")
    ran = cli(*line, "--data", "set", "--probes", "0", "--exporter", "torchscript")
    assert ran.code == 0, ran.err


def answer(cli: Run, image: str) -> list[dict[str, Any]]:
    """What the artifact finds in a picture; it is drawn, too."""
    ran = cli("run", "out", "--image", image, "--draw", "drawn.png", "--json")
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)["images"][0]["found"]
    return found


def value(cli: Run, metric: str) -> float:
    ran = cli("evaluate", "out", "--data", "set", "--metric", metric, "--json")
    assert ran.code == 0, ran.err
    return float(json.loads(ran.out)["rows"][0]["value"])


def test_segmentation(cli: Run, here: Path) -> None:
    from PIL import Image

    for name in ("images", "annotations"):
        (here / "set" / name).mkdir(parents=True)
    pixels = np.zeros((20, 30, 3), np.uint8)
    pixels[:, :15, 2] = pixels[:, 15:, 0] = 200
    Image.fromarray(pixels).save(here / "set" / "images" / "a.png")
    mask = np.where(np.arange(30) < 15, 2, 0).astype(np.uint8)
    Image.fromarray(np.tile(mask, (20, 1))).save(here / "set" / "annotations" / "a.png")
    deployed(cli, here, "masks")
    assert answer(cli, "set/images/a.png") == [
        {"name": "red", "index": 0, "share": 0.5},
        {"name": "blue", "index": 2, "share": 0.5},
    ]
    with Image.open(here / "drawn.png") as drawn:
        assert drawn.size == (30, 20)
    assert value(cli, "vision:miou") == 1
    with eb.load("out") as model:
        assert (model.predict("set/images/a.png").array == mask).all()
