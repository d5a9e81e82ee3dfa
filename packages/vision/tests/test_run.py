"""``enginebay run ARTIFACT --image``: names, boxes, a drawn image, or one clear line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run


def test_run_prints_the_best_classes(cli: Run) -> None:
    ran = cli("run", "build", "--image", "photos/red/0.png", "--image", "photos/blue/1.png")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].split() == ["IMAGE", "NAME", "INDEX", "PROBABILITY"]
    assert lines[1].split()[:2] == ["photos/red/0.png", "red"]
    assert lines[4].split()[:2] == ["photos/blue/1.png", "blue"]
    assert lines[-1].endswith("for 2 calls")


def test_json_contains_classes_and_outputs(cli: Run) -> None:
    ran = cli("run", "build", "--image", "photos/green/0.png", "--json")
    document = json.loads(ran.out)
    (seen,) = document["images"]
    assert seen["image"] == "photos/green/0.png"
    assert seen["found"][0]["name"] == "green"
    assert sum(found["probability"] for found in seen["found"]) == pytest.approx(1)
    assert document["outputs"][0]["shape"] == [1, 3]
    assert "images" not in json.loads(cli("run", "build", "--json").out)


def test_run_prints_and_draws_each_box(made: Path, cli: Run) -> None:
    Image.fromarray(np.full((50, 100, 3), 255, np.uint8)).save(made / "white.png")
    ran = cli("run", "finder", "--image", "white.png", "--draw", "out.png")
    assert ran.code == 0, ran.err
    rows = [line.split() for line in ran.out.splitlines()[:2]]
    assert rows[0] == [
        *("IMAGE", "NAME", "INDEX", "SCORE", "LEFT", "TOP", "RIGHT", "BOTTOM"),
    ]
    assert rows[1] == [
        *("white.png", "dog", "1", "1.0000", "25.0000", "25.0000", "75.0000", "50.0000"),
    ]
    drawn = np.asarray(Image.open(made / "out.png"))
    assert drawn.shape == (50, 100, 3)
    assert (drawn[40, 25] != 255).any(), "the left edge"
    assert (drawn[40, 10] == 255).all()
    (made / "out.png").unlink()
    (made / "white.png").unlink()


def test_run_saves_outputs(made: Path, cli: Run) -> None:
    assert cli("run", "build", "--image", "photos/red/0.png", "--output", "y.npz").code == 0
    assert np.load(made / "y.npz")["output"].argmax() == 0
    (made / "y.npz").unlink()


@pytest.mark.parametrize(
    ("line", "code", "message", "hint"),
    [
        (
            "without --image photos/red/0.png",
            2,
            "has no task, and --image requires the preprocessing of a task",
            "deploy the model again with --task FILE.json",
        ),
        ("build --image no.png", 2, "'no.png' does not exist; expected an image", None),
        ("build --image photos/red", 2, "'photos/red' is a folder; expected an image", None),
        (
            "build --image net.py",
            2,
            "'net.py' cannot be read as an image: cannot identify image file it",
            None,
        ),
        ("build --draw out.png", 2, "--draw requires --image", "add --image FILE"),
        (
            "build --image a.png --image b.png --draw out.png",
            2,
            "expected one --image for --draw, found 2",
            "run the images one by one",
        ),
        (
            "build --image photos/red/0.png --draw out.txt",
            2,
            "'out.txt' cannot be written: Pillow does not write the image format '.txt'",
            "--draw out.png",
        ),
        (
            "build --image photos/red/0.png --input x=1x3x16x16",
            2,
            "--image and --input both specify the input 'x'",
            None,
        ),
    ],
)
def test_invalid_command_lines_are_refused(
    cli: Run, line: str, code: int, message: str, hint: str | None
) -> None:
    ran = cli("run", *line.split())
    assert ran.code == code
    first, *rest = ran.err.splitlines()
    assert first.endswith(message)
    assert rest == ([f"hint: {hint}"] if hint else [])
    assert ran.out == ""


def test_an_unreadable_task_does_not_prevent_running(made: Path, cli: Run) -> None:
    """An unknown step makes the task unreadable, but the model still runs."""
    path = made / "finder" / "manifest.json"
    before = path.read_text()
    changed = json.loads(before)
    changed["task"]["image"]["steps"][0] = {"type": "rotate"}
    path.write_text(json.dumps(changed))
    try:
        assert cli("run", "finder").code == 0
        assert cli("inspect", "finder").code == 0
        ran = cli("run", "finder", "--image", "photos/red/0.png")
        assert (ran.code, ran.err) == (
            1,
            (
                f'error: "{made}/finder/manifest.json" has a task that cannot be read: the task: '
                "Invalid value 'rotate' - at `$.image.steps[0].type`\n"
                "hint: deploy the model again, or install the package versions with which "
                "the artifact was built\n"
            ),
        )
    finally:
        path.write_text(before)
