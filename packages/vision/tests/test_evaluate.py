"""Images as the items of an evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conftest import Run


def test_evaluate_takes_images(cli: Run) -> None:
    line = ("evaluate", "build", "--data", "photos", "--metric", "accuracy")
    ran = cli(*line, "--model", "net.py:build")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[1].split()[:5] == ["build", "accuracy", "1", "1", "0"]
    assert "the targets are numbered by class names" in ran.out


def test_evaluate_refuses_missing_and_different_tasks(cli: Run) -> None:
    ran = cli("evaluate", "without", "--data", "photos", "--metric", "accuracy")
    assert ran.code == 2
    assert "'photos' contains no .npz files; other files require a task" in ran.err
    ran = cli("evaluate", "build", "finder", "--data", "photos", "--metric", "accuracy")
    assert ran.err.splitlines()[0] == (
        "error: the tasks of 'build' and 'finder' prepare inputs or targets differently"
    )
