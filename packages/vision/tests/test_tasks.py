"""A task as data: reading, refusals, and the check against a model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import enginebay as eb
import enginebay_vision as vision
from enginebay.authors.sources import read_task

from .conftest import recorded

if TYPE_CHECKING:
    from pathlib import Path

TASK = vision.ImageClassification(
    image=vision.ImageInput(
        steps=(vision.Resize(256, 256, fit="cover"), vision.Crop(224, 224)),
        mean=(0.5,),
        std=(0.25,),
    ),
    classes=("cat", "dog"),
)
IMAGE = (eb.TensorSpec("x", "float32", ("batch", 3, 224, 224)),)
SCORES = (eb.TensorSpec("y", "float32", ("batch", 2)),)


def test_a_recorded_task_reads_back_equal() -> None:
    assert recorded(TASK) == {
        "type": "image-classification",
        "image": {
            "input": "",
            "steps": [
                {
                    "type": "resize",
                    "height": 256,
                    "width": 256,
                    "fit": "cover",
                    "rounding": "down",
                    "interpolation": "bilinear",
                    "antialias": True,
                },
                {
                    "type": "crop",
                    "height": 224,
                    "width": 224,
                    "at": "middle",
                    "rounding": "nearest",
                    "fill": [0, 0, 0],
                },
            ],
            "channels": "RGB",
            "scale": 1 / 255,
            "mean": [0.5],
            "std": [0.25],
            "layout": "NCHW",
            "dtype": "",
        },
        "classes": ["cat", "dog"],
        "output": "",
        "activation": "softmax",
    }
    assert read_task(json.loads(json.dumps(recorded(TASK)))) == TASK


def test_a_task_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "task.json"
    path.write_text(json.dumps(recorded(TASK)))
    assert read_task(path) == TASK


BAD: list[tuple[Any, str]] = [
    (5, "the task is of type int; expected a mapping with the kind under 'type', or the path…"),
    ({"type": "image-classification"}, "the task: Object missing required field `image`"),
    (
        {"steps": [{"type": "rotate"}]},
        "the task: Invalid value 'rotate' - at `$.image.steps[0].type`",
    ),
    (
        {"steps": [{"type": "resize", "height": 0, "width": 1}]},
        "the task: Resize: 'height' is 0; expected a whole number above 0",
    ),
    (
        {"steps": [{"height": 8, "width": 8, "interpolation": "bicubic", "antialias": False}]},
        "the task: Resize: interpolation 'bicubic' requires antialias=True",
    ),
    (
        {"steps": [{"type": "crop", "height": 8, "width": 8, "fill": [0, 0, 256]}]},
        "the task: Crop: 'fill' is (0, 0, 256); expected three numbers from 0 to 255",
    ),
    (
        {"mean": [1, 2]},
        "the task: 'mean' has 2 numbers; expected one for each channel of RGB, or …",
    ),
    ({"std": [0]}, "the task: 'std' is 0; expected a number other than 0"),
    ({"scale": 0}, "the task: 'scale' is 0; expected a number other than 0"),
    (
        {"dtype": "uint8"},
        "the task: dtype 'uint8' cannot be combined with 'scale', 'mean' or 'std'",
    ),
    ({"channles": "RGB"}, "the task: Object contains unknown field `channles` - at `$.image`"),
]


@pytest.mark.parametrize(("task", "message"), BAD)
def test_a_wrong_value_is_named(task: Any, message: str) -> None:
    if isinstance(task, dict) and "type" not in task:
        for step in task.get("steps", ()):
            step.setdefault("type", "resize")
        task = {"type": "image-classification", "image": task}
    with pytest.raises(eb.EnginebayError) as caught:
        read_task(task)
    head = message.partition("…")[0]
    assert str(caught.value)[: len(head)] == head


def test_wrong_detection_values_are_refused() -> None:
    image = vision.ImageInput()
    with pytest.raises(eb.EnginebayError, match="'threshold' is 2; expected a number from 0 to 1"):
        vision.ObjectDetection(image=image, threshold=2)
    with pytest.raises(eb.EnginebayError, match="'softmax' cannot be combined with 'labels'"):
        vision.ObjectDetection(image=image, activation="softmax")


def test_values_of_wrong_types_are_refused() -> None:
    with pytest.raises(eb.EnginebayError, match="'scale', 'mean' or 'std' is infinite or NaN"):
        vision.ImageInput(mean=(float("nan"),))
    with pytest.raises(eb.EnginebayError, match="the task: Expected `str`, got `int`"):
        read_task(vision.ImageClassification(image=vision.ImageInput(), classes=(1, 2)))  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a task in JSON: Input data was truncated"),
        ("[]", "is not a task in JSON: expected a JSON object"),
        ('{"type": 3}', "has 3 under 'type'; expected a mapping with the kind under 'type', or"),
    ],
)
def test_files_without_a_task_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "task.json"
    path.write_text(text)
    with pytest.raises(eb.EnginebayError) as caught:
        read_task(path)
    assert message in str(caught.value)
    with pytest.raises(eb.EnginebayError, match="cannot be read: No such file or directory"):
        read_task(tmp_path / "none.json")


def test_fit_fills_in_the_models_names() -> None:
    fitted = TASK.fit(IMAGE, SCORES)
    assert (fitted.image.input, fitted.image.dtype) == ("x", "float32")
    assert isinstance(fitted, vision.ImageClassification)
    assert fitted.output == "y"
    pooled = eb.TensorSpec("y", "float32", ("batch", 2, 1, 1))
    assert TASK.fit(IMAGE, (pooled,)) == fitted
    # Nothing is known of an output without a shape, or of an image of any size.
    anything = eb.TensorSpec("x", "float16", ("n", 3, "h", "w"))
    TASK.fit((anything,), (eb.TensorSpec("y", "float32", None),))


def test_input_names_and_dtypes_do_not_change_the_preparation() -> None:
    task = vision.SemanticSegmentation(image=vision.ImageInput(), output="y")
    half = vision.SemanticSegmentation(
        image=vision.ImageInput(input="pixels", dtype="float16"), output="y"
    )
    assert task.preparation() == half.preparation()
    other = vision.SemanticSegmentation(image=vision.ImageInput(), output="z")
    assert task.preparation() != other.preparation()


def image(**fields: Any) -> vision.ImageClassification:
    return vision.ImageClassification(image=vision.ImageInput(**fields))


CROPPED = vision.ImageInput(steps=(vision.Crop(32, 32),))
FOUND = "the input is x float32[1, 3, 32, 32]"
MISFITS: list[tuple[Any, dict[str, Any], str, str | None]] = [
    (
        image(input="imgae"),
        {"inputs": "image other"},
        "unknown input 'imgae' in the task; available: image, other",
        "did you mean 'image'?",
    ),
    (
        image(dtype="float16"),
        {},
        f"the task converts images to float16, but {FOUND}",
        "set dtype='float32' in the task, or remove 'dtype'",
    ),
    (
        image(),
        {"dtype": "int64"},
        "images cannot be converted to the input x int64[1, 3, 32, 32]; expected floats or uint8",
        None,
    ),
    (
        image(),
        {"dims": (1, 16)},
        (
            "the task converts images to tensors with four axes, NCHW, but the input is "
            "x float32[1, 16]"
        ),
        None,
    ),
    (
        image(layout="NHWC"),
        {},
        f"the task has 3 channels, RGB, at axis 3, but {FOUND}",
        "check 'channels' and 'layout' of the task",
    ),
    (
        image(),
        {},
        f"the task's steps produce images of different sizes, but {FOUND}",
        "add vision.Crop(32, 32) as the last step",
    ),
    (
        image(steps=(vision.Resize(8, 8),)),
        {},
        f"the task's steps produce images of 8x8, but {FOUND}",
        "add vision.Crop(32, 32) as the last step",
    ),
    (
        vision.ImageClassification(image=CROPPED, classes=("a", "b")),
        {},
        "the task has 2 classes, but the output is y float32[1, 3]",
        None,
    ),
    (
        vision.ObjectDetection(image=CROPPED),
        {},
        "unknown output 'boxes' in the task; available: y",
        None,
    ),
]


@pytest.mark.parametrize(("task", "model", "message", "hint"), MISFITS)
def test_tasks_that_do_not_fit_the_model_are_refused(
    task: Any, model: dict[str, Any], message: str, hint: str | None
) -> None:
    names = model.get("inputs", "x").split()
    dims, dtype = model.get("dims", (1, 3, 32, 32)), model.get("dtype", "float32")
    inputs = [eb.TensorSpec(name, dtype, dims) for name in names]
    with pytest.raises(eb.EnginebayError) as caught:
        task.fit(inputs, [eb.TensorSpec("y", "float32", (1, 3))])
    assert (str(caught.value), caught.value.hint) == (message, hint)


def test_scores_may_have_a_column_for_no_object() -> None:
    task = vision.ObjectDetection(
        image=vision.ImageInput(), classes=("a", "b"), labels="", activation="softmax"
    )
    boxes = eb.TensorSpec("boxes", "float32", (1, 9, 4))
    anywhere = (eb.TensorSpec("x", "float32", (1, 3, "h", "w")),)
    for columns in (2, 3):
        task.fit(anywhere, (boxes, eb.TensorSpec("scores", "float32", (1, 9, columns))))
    with pytest.raises(eb.EnginebayError, match="the task has 2 classes, but the output is"):
        task.fit(anywhere, (boxes, eb.TensorSpec("scores", "float32", (1, 9, 4))))
    wide = eb.TensorSpec("boxes", "float32", (1, 9, 5))
    with pytest.raises(eb.EnginebayError) as caught:
        task.fit(anywhere, (wide, eb.TensorSpec("scores", "float32", (1, 9, 2))))
    assert str(caught.value) == (
        "the task expects four numbers for each box, but the output is boxes float32[1, 9, 5]"
    )
