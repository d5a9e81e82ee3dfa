"""Outputs become names and boxes, which are drawn on the image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

import enginebay as eb
import enginebay_vision as vision
from enginebay_vision import RankedClass
from enginebay_vision.drawing import check_drawing, save_image

if TYPE_CHECKING:
    from pathlib import Path

LETTERBOX = vision.ImageInput(steps=(vision.Resize(64, 64, fit="contain"), vision.Crop(64, 64)))


def test_the_best_classes_come_first() -> None:
    logits = np.log(np.array([[0.2, 0.5, 0.3]], np.float32))
    task = vision.ImageClassification(
        image=vision.ImageInput(), classes=("a", "b", "c"), output="y"
    )
    best = task.postprocess({"y": logits}, count=2)
    assert [(found.name, found.index) for found in best] == [("b", 1), ("c", 2)]
    assert [found.probability for found in best] == pytest.approx([0.5, 0.3])
    unnamed = vision.ImageClassification(image=vision.ImageInput(), output="y", activation="none")
    assert unnamed.postprocess({"y": np.array([0.0, 1.0])})[0] == RankedClass("1", 1, 1.0)
    several = vision.ImageClassification(
        image=vision.ImageInput(), output="y", activation="sigmoid"
    )
    assert several.postprocess({"y": np.array([[-1e4, 0.0]])})[0].probability == 0.5


def test_nan_and_missing_outputs_are_refused() -> None:
    task = vision.ImageClassification(image=vision.ImageInput(), output="y")
    with pytest.raises(eb.EnginebayError, match="output 'y' contains NaN or infinity"):
        task.postprocess({"y": np.array([[0.0, np.nan]])})
    with pytest.raises(eb.EnginebayError, match="unknown output 'y'; available: z, w"):
        task.postprocess({"z": np.zeros(1), "w": np.zeros(1)})


def test_boxes_are_mapped_back_and_clipped() -> None:
    """200×100 becomes 64×32 at 16 from the top: a third of the network's pixels a pixel."""
    task = vision.ObjectDetection(image=LETTERBOX, classes=("cat", "dog"))
    outputs = {
        "boxes": np.array([[[6.4, 22.4, 32, 48], [0, 0, 64, 64], [0, 0, 1, 1]]]),
        "scores": np.array([[0.6, 0.9, 0.1]]),
        "labels": np.array([[1, 0, 0]]),
    }
    whole, part = task.postprocess(outputs, (200, 100))
    assert (part.name, part.score) == ("dog", 0.6)
    assert (part.left, part.top, part.right, part.bottom) == pytest.approx((20, 20, 100, 100))
    assert (whole.name, whole.left, whole.top, whole.right, whole.bottom) == ("cat", 0, 0, 200, 100)


def test_normalised_centre_boxes_become_pixel_edges() -> None:
    task = vision.ObjectDetection(
        image=vision.ImageInput(steps=(vision.Resize(64, 64),)),
        classes=("cat", "dog"),
        labels="",
        box_form="cxcywh",
        normalised=True,
        activation="softmax",
    )
    outputs = {
        "boxes": np.array([[[0.5, 0.5, 0.2, 0.4], [0.1, 0.1, 0.1, 0.1]]]),
        "scores": np.log(np.array([[[0.1, 0.8, 0.1], [0.05, 0.05, 0.9]]])),
    }
    (found,) = task.postprocess(outputs, (100, 50))
    assert (found.name, found.score) == ("dog", pytest.approx(0.8))
    edges = (found.left, found.top, found.right, found.bottom)
    assert edges == pytest.approx((40, 15, 60, 35))


def test_an_output_without_boxes_produces_an_empty_list() -> None:
    task = vision.ObjectDetection(image=LETTERBOX)
    empty = {"boxes": np.zeros((1, 0, 4)), "scores": np.zeros((1, 0)), "labels": np.zeros((1, 0))}
    assert task.postprocess(empty, (10, 10)) == []


def test_outputs_of_different_lengths_are_refused() -> None:
    task = vision.ObjectDetection(image=LETTERBOX)
    wrong = {"boxes": np.zeros((2, 4)), "scores": np.zeros(3), "labels": np.zeros(3)}
    wide = {"boxes": np.zeros((2, 5)), "scores": np.zeros(2), "labels": np.zeros(2)}
    with pytest.raises(eb.EnginebayError, match=r"output 'boxes' has the shape \(2, 5\); expected"):
        task.postprocess(wide, (10, 10))
    with pytest.raises(eb.EnginebayError, match="found 2 boxes, 3 scores and 3 classes"):
        task.postprocess(wrong, (10, 10))


@pytest.mark.parametrize("name", ["out.png", "out.jpg", "out.PNG"])
def test_boxes_are_drawn_on_the_image(tmp_path: Path, name: str) -> None:
    task = vision.ObjectDetection(image=LETTERBOX, classes=("Füchse – 狐",))
    outputs = {"boxes": np.array([[8.0, 8, 32, 32]]), "scores": np.ones(1), "labels": np.zeros(1)}
    Image.new("RGBA", (64, 64)).save(tmp_path / "a.png")
    check_drawing(tmp_path / name)
    task.draw(tmp_path / "a.png", task.postprocess(outputs, (64, 64)), tmp_path / name)
    drawn = np.asarray(Image.open(tmp_path / name).convert("RGB"))
    assert drawn[32, 20].max() > 100  # the lower edge of the box
    assert drawn[50:].max() < 20
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_the_class_is_drawn_on_the_image(tmp_path: Path) -> None:
    image = Image.new("RGB", (1, 1))
    draw = vision.ImageClassification(image=vision.ImageInput()).draw
    draw(image, [RankedClass("cat", 0, 0.9)], tmp_path / "one.png")
    draw(image, [], tmp_path / "none.png")
    draw(Image.new("RGB", (90, 90)), [RankedClass("cat", 0, 0.9)], tmp_path / "more.png")
    assert np.asarray(Image.open(tmp_path / "more.png")).max() > 100
    assert image.getpixel((0, 0)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("out", "'{0}/out' cannot be written: Pillow does not write the image format ''"),
        (
            "out.psd",
            "'{0}/out.psd' cannot be written: Pillow does not write the image format '.psd'",
        ),
        ("no/out.png", "'{0}/no/out.png' cannot be written: no such folder: '{0}/no'"),
    ],
)
def test_invalid_drawing_paths_are_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(eb.EnginebayError) as caught:
        check_drawing(tmp_path / name)
    assert str(caught.value) == message.format(tmp_path)


def test_a_folder_at_the_drawing_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.png" / "in it").mkdir(parents=True)
    image: Any = Image.new("RGB", (1, 1))
    with pytest.raises(eb.EnginebayError, match=r"one\.png' cannot be written: "):
        save_image(image, tmp_path / "one.png")
    assert [file.name for file in tmp_path.iterdir()] == ["one.png"]
