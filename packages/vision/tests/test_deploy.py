"""The task of a model is checked against it and recorded in the manifest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

import enginebay as eb
import enginebay_vision as vision

from .conftest import recorded

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def test_the_manifest_records_the_task_with_the_models_names(made: Path) -> None:
    artifact = eb.open_artifact(made / "build")
    assert isinstance(artifact.task, vision.ImageClassification)
    assert artifact.task.classes == ("red", "green", "blue")
    assert (artifact.task.image.input, artifact.task.image.dtype) == ("x", "float32")
    assert artifact.task.output == "output"
    assert manifest(made / "build")["task"] == recorded(artifact.task)


def test_a_model_without_a_task_records_no_task(made: Path) -> None:
    assert "task" not in manifest(made / "without")
    assert eb.open_artifact(made / "without").task is None


def test_a_loaded_task_predicts_classes_and_boxes(made: Path) -> None:
    task = eb.open_artifact(made / "build").task
    assert isinstance(task, vision.ImageClassification)
    with eb.load(made / "build") as model:
        best, *_ = task.postprocess(model(task.preprocess(made / "photos" / "green" / "1.png")))
    assert (best.name, best.index) == ("green", 1)
    assert best.probability > 0.99
    with eb.load(made / "build") as model, eb.load(made / "finder") as finder:
        assert model.predict(made / "photos" / "green" / "1.png")[0] == best
        (box, *_) = finder.predict(Image.new("RGB", (32, 32), "white"))
    assert (box.name, box.left, box.bottom) == ("dog", 8.0, 32.0)


def test_deploy_reads_the_task_from_a_file(made: Path, cli: Run) -> None:
    (made / "task.json").write_text(json.dumps(manifest(made / "build")["task"]))
    line = ("deploy", "net.py:without", "--work-dir", "given", "--probes", "0")
    ran = cli(*line, "--task", "task.json", "--exporter", "torchscript")
    assert ran.code == 0, ran.err
    assert manifest(made / "given")["task"] == manifest(made / "build")["task"]
    assert "task      image-classification\n" in cli("inspect", "given").out


@pytest.mark.parametrize(
    ("model", "flags", "message"),
    [
        ("wrong", (), "the task has 2 classes, but the output is output float32[1, 3]"),
        (
            "nonsense",
            (),
            "invalid task of 'net.py:nonsense': the task: Object missing required field `image`",
        ),
        ("build", ("--task", "no.json"), "'no.json' cannot be read: No such file or directory"),
        ("build", ("--task", "net.py"), "'net.py' is not a task in JSON: JSON is malformed: …"),
    ],
)
def test_an_invalid_task_is_refused_before_writing(
    made: Path, cli: Run, model: str, flags: tuple[str, ...], message: str
) -> None:
    before = sorted(made.rglob("*"))
    ran = cli("deploy", f"net.py:{model}", "--work-dir", "build", "--overwrite", *flags)
    first = ran.err.splitlines()[0]
    head = f"error: {message}".partition("…")[0]
    assert (ran.code, first[: len(head)]) == (2, head)
    assert [path for path in sorted(made.rglob("*")) if "__pycache__" not in str(path)] == [
        path for path in before if "__pycache__" not in str(path)
    ]


def test_a_third_item_that_is_not_a_task_is_refused() -> None:
    import torch

    triple = (torch.nn.ReLU(), torch.zeros(1), torch.zeros(1))
    with pytest.raises(eb.EnginebayError, match="tuple': the task is of type Tensor, which"):
        eb.export(triple)
