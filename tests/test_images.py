"""Images on real engines: predictions of every vision task, and int8 on image folders."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
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
def test_artifact_classifies_an_image(cli: Run, photos: Path, backend: str) -> None:
    line = ("deploy", "net.py:build", "--backend", backend, "--work-dir", "out", "--probes", "0")
    ran = cli(*line, "--data", "photos", "--take", "3")
    assert ran.code == 0, ran.err
    ran = cli("run", "out", "--image", "photos/blue/2.png", "--json")
    assert json.loads(ran.out)["images"][0]["found"][0]["name"] == "blue"


def test_int8_is_calibrated_and_ranked_on_images(cli: Run, photos: Path) -> None:
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
COLOURS = ("red", "green", "blue")

class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward = function

def candidates(x):
    boxes = torch.tensor([[[0.0, 0, 8, 8], [0, 0, 8, 7], [8, 8, 16, 16]]])
    return {"boxes": boxes, "scores": torch.stack([x.amax((2, 3))] * 3, 1)}

IMAGE = torch.rand(1, 3, 16, 16)

def masks():
    return nn.AvgPool2d(2), IMAGE, vision.SemanticSegmentation(image=SMALL, classes=COLOURS)

def larger():
    return nn.Upsample(scale_factor=2), IMAGE, vision.ImageToImage(image=SMALL)

def far():
    return Of(lambda x: x.mean(1)), IMAGE, vision.DepthEstimation(image=SMALL)

def points():
    return nn.AvgPool2d(2), IMAGE, vision.KeypointDetection(image=SMALL, classes=COLOURS)

def letters():
    task = vision.TextRecognition(image=SMALL, classes=("g", "b"))
    return Of(lambda x: 50 * x.mean(2).transpose(1, 2)), IMAGE, task

def boxes():
    nms = vision.Suppression()
    task = vision.ObjectDetection(image=SMALL, classes=COLOURS, labels="", nms=nms)
    return Of(candidates), IMAGE, task

def halves(x):
    boxes = torch.tensor([[[0.0, 0, 8, 16], [8, 0, 16, 16]]])
    sure = torch.cat([x[:, 2, :, :8], x[:, 0, :, 8:]]).mul(2).clamp(max=1)
    scores = torch.stack([x[..., :8].amax((2, 3)), x[..., 8:].mean((2, 3))], 1)
    return {"boxes": boxes, "scores": scores, "masks": sure[None]}

def objects():
    fields = {"image": SMALL, "classes": COLOURS, "labels": ""}
    return Of(halves), IMAGE, vision.InstanceSegmentation(**fields)
"""


@pytest.fixture
def picture(here: Path) -> Path:
    """An image that is blue on the left and red on the right."""
    from PIL import Image

    (here / "tasks.py").write_text(TASKS)
    (here / "set" / "images").mkdir(parents=True)
    pixels = np.zeros((20, 30, 3), np.uint8)
    pixels[:, :15, 2] = pixels[:, 15:, 0] = 200
    pixels[5, 25] = 255
    Image.fromarray(pixels).save(here / "set" / "images" / "a.png")
    return here / "set" / "images" / "a.png"


def deployed(cli: Run, name: str) -> None:
    """Deploy one of :data:`TASKS` on ONNX Runtime."""
    line = ("deploy", f"tasks.py:{name}", "--backend", "onnxruntime", "--work-dir", "out")
    ran = cli(*line, "--probes", "0", "--exporter", "torchscript")
    assert ran.code == 0, ran.err


def answer(cli: Run, image: str) -> list[dict[str, Any]]:
    """Return the predictions for an image, and draw them."""
    ran = cli("run", "out", "--image", image, "--draw", "drawn.png", "--json")
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)["images"][0]["found"]
    return found


def value(cli: Run, metric: str) -> float:
    ran = cli("evaluate", "out", "--data", "set", "--metric", metric, "--json")
    assert ran.code == 0, ran.err
    return float(json.loads(ran.out)["rows"][0]["value"])


#: The predictions, with the fields that are compared, and the size of the drawn image.
ANSWERS: dict[str, tuple[list[dict[str, Any]], tuple[int, int]]] = {
    "masks": ([{"name": "red", "share": 0.5}, {"name": "blue", "share": 0.5}], (30, 20)),
    "larger": ([{"width": 32, "height": 32}], (32, 32)),
    "far": ([{"low": pytest.approx(200 / 765)}], (30, 20)),
    "points": ([{"name": "red"}, {"name": "green"}, {"name": "blue"}], (30, 20)),
    "letters": ([{"text": "b"}], (30, 20)),
    "objects": (
        [
            {"name": "blue", "right": 15.0, "area": 300},
            {"name": "red", "left": 15.0, "area": 300},
        ],
        (30, 20),
    ),
    "boxes": ([{"name": "red", "right": 15.0}, {"name": "red", "right": 30.0}], (30, 20)),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_vision_task_predicts_and_draws_an_image(cli: Run, picture: Path, name: str) -> None:
    from PIL import Image

    deployed(cli, name)
    predictions = answer(cli, str(picture))
    expected, size = ANSWERS[name]
    named = [
        {key: prediction[key] for key in fields}
        for fields, prediction in zip(expected, predictions, strict=True)
    ]
    assert named == expected
    with Image.open("drawn.png") as drawn:
        assert drawn.size == size
    with eb.load("out") as model:
        assert msgspec.to_builtins(model.predict(picture)) == predictions


def test_miou_of_right_masks_is_1(cli: Run, picture: Path) -> None:
    from PIL import Image

    (picture.parents[1] / "annotations").mkdir()
    mask = np.where(np.arange(30) < 15, 2, 0).astype(np.uint8)
    Image.fromarray(np.tile(mask, (20, 1))).save(picture.parents[1] / "annotations" / "a.png")
    deployed(cli, "masks")
    assert value(cli, "vision:miou") == 1


def test_map_counts_a_missed_box(cli: Run, picture: Path) -> None:
    document = {
        "images": [{"id": 1, "file_name": "a.png"}],
        "categories": [{"id": 5, "name": "red"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 5, "bbox": [0, 0, 15, 10]},
            {"id": 2, "image_id": 1, "category_id": 5, "bbox": [90, 90, 15, 10]},
        ],
    }
    (picture.parents[1] / "boxes.json").write_text(json.dumps(document))
    deployed(cli, "boxes")
    assert value(cli, "vision:map") == pytest.approx(51 / 101)


def test_mask_map_of_an_engine_is_that_of_the_model(cli: Run, picture: Path) -> None:
    """The red half has a mask of two parts, of which the box covers one; the blue one a hole."""
    left, right = [0, 0, 15, 0, 15, 20, 0, 20], [15, 0, 30, 0, 30, 20, 15, 20]
    hole = {"size": [20, 30], "counts": [0, 100, 60, 140, 300]}
    document = {
        "images": [{"id": 1, "file_name": "a.png"}],
        "categories": [{"id": 5, "name": "red"}, {"id": 2, "name": "blue"}],
        "annotations": [
            {"image_id": 1, "category_id": 5, "bbox": [15, 0, 15, 20], "segmentation": [right]},
            {"image_id": 1, "category_id": 2, "bbox": [0, 0, 15, 20], "segmentation": hole},
            {
                "image_id": 1,
                "category_id": 2,
                "bbox": [0, 0, 30, 20],
                "segmentation": [left, right],
            },
        ],
    }
    (picture.parents[1] / "objects.json").write_text(json.dumps(document))
    deployed(cli, "objects")
    line = ("evaluate", "out", "--data", "set", "--model", "tasks.py:objects", "--json")
    ran = cli(*line, "--metric", "vision:mask-map", "--metric", "vision:map")
    assert ran.code == 0, ran.err
    masks, boxes = json.loads(ran.out)["rows"]
    # Of the blue half 240 of 300 pixels: seven of ten thresholds; half of the blue objects.
    assert masks["value"] == pytest.approx((1 + 7 / 10 * 51 / 101) / 2)
    assert boxes["value"] == pytest.approx((1 + 51 / 101) / 2)
    assert (masks["drop"], boxes["drop"]) == (0, 0)
