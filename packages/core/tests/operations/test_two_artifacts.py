"""An engine that takes one artifact for another in the same process is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import torch
from tests.faulty_engines import HIDDEN_FAULTS, RIGHT, SOURCE

import enginebay as eb
from enginebay.errors import InferenceError
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNS_THE_LAST = """
    def __init__(self, request):
        super().__init__(request)
        self.shared["last"] = self._evaluator

    def execute(self, feed):
        self._evaluator = self.shared["last"]
        return self.run(feed)
"""
NAMES = "file and folder name"
FAULTS = [
    (HIDDEN_FAULTS["loads what a file's name loaded before"], NAMES),
    (HIDDEN_FAULTS["loads what a folder's name loaded before"], NAMES),
    (HIDDEN_FAULTS["loads what a path loaded before"], "path"),
    (RUNS_THE_LAST, NAMES),
]
MODELS = [
    (torch.nn.Softmax(1), torch.arange(12.0).reshape(3, 4)),
    (torch.nn.Conv1d(3, 2, 2), torch.arange(12.0).reshape(1, 3, 4)),
    (torch.nn.ReLU(), torch.linspace(-1, 1, 48).reshape(1, 3, 4, 4)),
]


def deploy(folder: Path, model: int = 0) -> eb.Deployment:
    module, example = MODELS[model]
    return eb.deploy(module, example, backend="faulty", work_dir=folder)


@pytest.mark.parametrize("model", range(len(MODELS)))
@pytest.mark.parametrize(("methods", "common"), FAULTS)
def test_an_engine_that_runs_another_artifact_is_refused(
    tmp_path: Path, methods: str, common: str, model: int
) -> None:
    message = (
        r"onnx\.reference \S+ gives the results of another artifact, which was loaded in the same "
        rf"process from the same {common}"
    )
    with (
        temporary_backend("faulty", SOURCE.format(method=methods)),
        pytest.raises(InferenceError, match=message) as caught,
    ):
        deploy(tmp_path / "out", model)
    assert re.fullmatch(
        r"report it to the authors of temporary-faulty, or correct build_wrapper\(\) of "
        r"temporary_faulty_\d+",
        caught.value.hint or "",
    )
    assert not (tmp_path / "out").exists()


def test_a_refusal_is_repeated(tmp_path: Path) -> None:
    with temporary_backend("faulty", SOURCE.format(method=FAULTS[0][0])):
        for name in ("first", "second"):
            with pytest.raises(InferenceError, match="of another artifact"):
                deploy(tmp_path / name)


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Path]:
    """Install an engine without a fault, which writes a line into this file for each loading."""
    log = tmp_path / "log"
    log.touch()
    methods = f"""{RIGHT}
    def __init__(self, request):
        super().__init__(request)
        with open({str(log)!r}, "a") as log:
            log.write(request.inputs[0].name + "\\n")
"""
    with temporary_backend("faulty", SOURCE.format(method=methods)):
        yield log


def test_an_engine_is_tried_once(tmp_path: Path, logged: Path) -> None:
    assert deploy(tmp_path / "first").verdict == "verified"
    *own, first, second, third = logged.read_text().split()
    assert (first, second, third) == ("x", "x", "x")
    logged.write_text("")
    assert deploy(tmp_path / "second").verdict == "verified"
    assert logged.read_text().split() == own == ["input"] * len(own)


def test_an_engine_that_cannot_run_the_tiny_model_is_judged_by_the_users_model(
    tmp_path: Path,
) -> None:
    methods = """
    def __init__(self, request):
        super().__init__(request)
        if request.inputs[0].name == "x":
            __import__("os").kill(__import__("os").getpid(), 11)
"""
    with temporary_backend("faulty", SOURCE.format(method=methods)):
        assert deploy(tmp_path / "out").verdict == "verified"
