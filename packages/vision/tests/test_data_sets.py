"""A folder of images with a folder for each class, as a data set."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from PIL import Image

import enginebay as eb
import enginebay_vision as vision

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Run


@pytest.fixture
def photos(made: Path) -> Iterator[Path]:
    """A copy of the images that a test may spoil."""
    shutil.copytree(made / "photos", made / "mine")
    yield made / "mine"
    shutil.rmtree(made / "mine")


def task(*classes: str) -> vision.ImageClassification:
    steps = (vision.Resize(4, 4),)
    return vision.ImageClassification(
        image=vision.ImageInput(input="x", steps=steps), classes=classes
    )


def fault(folder: Path, *classes: str) -> tuple[str, str | None]:
    with pytest.raises(eb.EnginebayError) as caught:
        list(eb.DataSet(str(folder)).for_task(task(*classes)))
    return str(caught.value), caught.value.hint


def test_items_are_images_and_targets_class_numbers(photos: Path) -> None:
    (photos / "red" / "notes.txt").write_text("not an image")
    (photos / "red" / "._0.png").write_text("a file that macOS writes")
    (photos / ".cache").mkdir()
    data = eb.DataSet(str(photos))
    named = data.for_task(task("red", "green", "blue"))
    items = list(named)
    assert len(named) == 9
    assert [item.target for item in items] == [2] * 3 + [1] * 3 + [0] * 3
    assert {item.inputs["x"].shape for item in items} == {(1, 3, 4, 4)}
    assert (named.targets, named.record().targets) == ("class names", "class names")
    for classes in ((), ("n1", "n2", "n3")):
        other = data.for_task(task(*classes))
        assert [item.target for item in other][::3] == [0, 1, 2]
        assert other.targets == "sorted folders"
    assert [item.number for item in eb.DataSet(str(photos), take=2).for_task(task())] == [5, 6]


def test_images_without_classes_have_no_targets(photos: Path) -> None:
    loose = photos / "red"
    (loose / "thumbnails").mkdir()
    data = eb.DataSet(str(loose)).for_task(task("red"))
    assert [item.target for item in data] == [None] * 3
    assert data.targets == ""


def test_folders_that_are_not_classes_are_refused(photos: Path) -> None:
    assert fault(photos, "red", "blue", "green-ish", "white") == (
        f"'{photos}' has a folder 'green', which is not one of the task's 4 classes",
        "did you mean 'green-ish'?",
    )
    assert fault(photos, "red", "green", "blue", "red")[0] == (
        f"'{photos}' has a folder 'red', but two classes of the task have this name"
    )
    shutil.copy(photos / "red" / "0.png", photos / "loose.png")
    message = f"'{photos}' contains folders of images, and images next to them: 'loose.png'"
    assert fault(photos) == (message, "move each image into the folder of its class")


def test_a_broken_image_is_named(photos: Path) -> None:
    (photos / "green" / "1.png").write_text("no")
    assert fault(photos)[0] == (
        f"'{photos}/green/1.png' cannot be read as an image: cannot identify image file it"
    )


def test_images_without_a_task_are_refused(photos: Path) -> None:
    with pytest.raises(eb.EnginebayError) as caught:
        list(eb.DataSet(str(photos)))
    assert str(caught.value) == (f"'{photos}' contains no .npz files; other files require a task")
    assert caught.value.hint == ("deploy the model with a task: --task FILE.json")


def test_an_empty_folder_is_refused(photos: Path) -> None:
    (photos / "none" / "at all").mkdir(parents=True)
    assert fault(photos / "none")[0] == f"'{photos}/none' contains no items"


def test_deploy_verifies_on_images(made: Path, cli: Run) -> None:
    line = ("deploy", "net.py:build", "--work-dir", "on_photos", "--probes", "0")
    ran = cli(*line, "--data", "photos", "--take", "4", "--exporter", "torchscript", "--json")
    assert ran.code == 0, ran.err
    manifest = json.loads(ran.out)["manifest"]
    assert (manifest["data"]["count"], manifest["data"]["targets"]) == (4, "class names")
    assert manifest["verification"]["basis"]["labels"].count("example") == 1
    assert "targets by class names" in cli("inspect", "on_photos").out


@pytest.mark.parametrize(("model", "dtype"), [("bare", "float32"), ("half", "float16")])
def test_images_have_the_name_and_the_dtype_of_the_input(cli: Run, model: str, dtype: str) -> None:
    """Without an example, an image of the data set is the example."""
    line = ("deploy", f"net.py:{model}", "--work-dir", model, "--probes", "0", "--json")
    ran = cli(*line, "--data", "photos", "--take", "2", "--exporter", "torchscript")
    assert ran.code == 0, ran.err
    manifest = json.loads(ran.out)["manifest"]
    image = manifest["task"]["image"]
    assert (image["input"], image["dtype"]) == ("x", dtype)
    assert manifest["inputs"][0]["dtype"] == dtype


def test_grey_images_are_read_among_colour_images(photos: Path) -> None:
    Image.new("L", (3, 3)).save(photos / "red" / "grey.png")
    assert len(list(eb.DataSet(str(photos)).for_task(task()))) == 10
