"""Small models of images with their tasks, images of three classes, the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from packages.core.tests.comparators.conftest import compared  # noqa: F401  # a fixture
from packages.core.tests.conftest import loopback  # noqa: F401  # a fixture
from PIL import Image

import enginebay as eb
from enginebay_testing.command_runs import Ran, call_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Run = Callable[..., Ran]


def recorded(task: object) -> Any:
    """Return the record of a task: what a manifest and a JSON file have."""
    return json.loads(msgspec.json.encode(task))


NET = """\
import torch
import enginebay_vision as vision

SQUARE = (vision.Resize(16, 16, fit="cover"), vision.Crop(16, 16))
TASK = vision.ImageClassification(
    image=vision.ImageInput(steps=SQUARE, mean=(0.5,), std=(0.25,)),
    classes=("red", "green", "blue"),
)


class Colours(torch.nn.Module):
    def forward(self, x):
        return 8 * x.mean((2, 3))


class Finder(torch.nn.Module):
    def forward(self, x):
        edges = torch.tensor([[4.0, 8.0, 12.0, 16.0], [0.0, 0.0, 8.0, 8.0]])
        scores = torch.stack([x.amax(), x.amin()])
        return {"boxes": edges[None], "scores": scores[None], "labels": torch.tensor([[1, 0]])}


def build():
    return Colours(), torch.zeros(1, 3, 16, 16), TASK


def finder():
    steps = (vision.Resize(16, 16, fit="contain"), vision.Crop(16, 16))
    task = vision.ObjectDetection(image=vision.ImageInput(steps=steps), classes=("cat", "dog"))
    return Finder(), torch.ones(1, 3, 16, 16), task


def bare():
    return Colours(), None, TASK


def half():
    return Colours(), torch.zeros(1, 3, 16, 16, dtype=torch.float16), TASK


def without():
    return Colours(), torch.zeros(1, 3, 16, 16)


def wrong():
    return Colours(), torch.zeros(1, 3, 16, 16), vision.ImageClassification(
        image=TASK.image, classes=("red", "green")
    )


def nonsense():
    return Colours(), torch.zeros(1, 3, 16, 16), {"type": "image-classification"}
"""
CLASSES = ("red", "green", "blue")


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Write records about the tests' plugins to a temporary cache, not to the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, loopback: str) -> Path:  # noqa: F811  # the fixture
    """``net.py``, the artifacts ``build``, ``finder`` and ``without``, and ``photos``."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "net.py").write_text(NET)
    for name in ("build", "finder", "without"):
        eb.deploy(
            f"{folder}/net.py:{name}",
            backend=loopback,
            work_dir=folder / name,
            export=eb.ExportOptions(exporter="torchscript"),
            verify=eb.VerifyOptions(probes=0),
        )
    generator = np.random.default_rng(0)
    for number, name in enumerate(CLASSES):
        (folder / "photos" / name).mkdir(parents=True)
        for n in range(3):
            pixels = generator.integers(0, 120, (20 + n, 30, 3)).astype(np.uint8)
            pixels[..., number] += 100
            Image.fromarray(pixels).save(folder / "photos" / name / f"{n}.png")
    return folder


@pytest.fixture
def cli(made: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in the folder of ``made``."""
    monkeypatch.chdir(made)
    monkeypatch.setenv("ENGINEBAY_BACKENDS", "loopback")
    return partial(call_command, capfd)


def coco(path: Path, *objects: dict[str, Any], **changes: Any) -> Path:
    """Write two images of 20×10 pixels, and the COCO file that annotates them."""
    (path / "annotations").mkdir(parents=True)
    (path / "val2017").mkdir()
    for name in ("a.jpg", "b.jpg"):
        Image.new("RGB", (20, 10)).save(path / "val2017" / name)
    document = {
        "info": {"year": 2017},
        "images": [{"id": 7, "file_name": "a.jpg"}, {"id": 9, "file_name": "b.jpg"}],
        "categories": [{"id": 18, "name": "dog"}, {"id": 17, "name": "cat"}],
        "annotations": [{"id": 1, "segmentation": [], "iscrowd": 0, **item} for item in objects],
    }
    document.update(changes)
    text = {name: value for name, value in document.items() if value is not None}
    (path / "annotations" / "instances.json").write_text(json.dumps(text))
    return path
