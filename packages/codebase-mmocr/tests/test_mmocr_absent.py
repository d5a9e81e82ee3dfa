"""The package's metadata and its errors: these tests run without mmocr."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest

import enginebay as eb
from enginebay.environment import install_command
from enginebay.hooks import ModelRequest, RewritersRequest
from enginebay_mmocr import plugin
from enginebay_mmocr.source import read_image_size
from enginebay_mmocr.task import make_task
from enginebay_testing.command_runs import call_command

if TYPE_CHECKING:
    from pathlib import Path

INSTALL = install_command("enginebay-mmocr[mmocr]")


def fault(name: str = "crnn_mini-vgg_5e_mj", **section: Any) -> tuple[str, str | None]:
    with pytest.raises(eb.EnginebayError) as caught:
        plugin.model_sources()["mmocr"](ModelRequest(name=name, codebase_config=section))
    return str(caught.value), caught.value.hint


def test_the_distribution_announces_one_plugin() -> None:
    (found,) = entry_points(group="enginebay.plugins", name="mmocr")
    assert found.value == "enginebay_mmocr.plugin"


def test_the_command_line_reports_a_missing_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "mmocr", None)
    (tmp_path / "mine.py").write_text("codebase_config = dict(type='mmocr', task='TextDetection')")
    for words in (("mmocr:dbnet",), ("dbnet", "--config", "mine.py")):
        ran = call_command(capfd, "deploy", *words, "--backend", "onnxruntime")
        assert ran.code == 3
        assert ran.err == (
            f"error: a model 'mmocr:NAME' requires mmocr, which is not installed\nhint: {INSTALL}\n"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


@pytest.mark.parametrize(
    ("task", "hint"),
    [
        ("Segmentation", "set task='TextDetection', or remove task"),
        ("textrecognition", "did you mean 'TextRecognition'?"),
    ],
)
def test_an_unknown_task_is_refused(task: str, hint: str) -> None:
    message = f"codebase_config.task: '{task}' is not a task of mmocr; available: "
    assert fault(type="mmocr", task=task) == (f"{message}TextDetection, TextRecognition", hint)


@pytest.mark.parametrize(
    ("steps", "size"),
    [
        ([], (3, 640, 640)),
        (
            [
                {"type": "RandomResize", "scale": (800, 800), "ratio_range": (0.75, 2.5)},
                {"type": "TextDetRandomCrop", "target_size": (736, 736)},
                {"type": "ImgAugWrapper", "args": [["Resize", [0.5, 3.0]]]},
            ],
            (3, 736, 736),
        ),
        (
            [
                {"type": "LoadImageFromFile", "color_type": "grayscale"},
                {"type": "Resize", "scale": (100, 32), "keep_ratio": False},
            ],
            (1, 32, 100),
        ),
        (
            [{"type": "RescaleToHeight", "height": 48}, {"type": "PadToWidth", "width": 160}],
            (3, 48, 160),
        ),
    ],
)
def test_the_image_size_is_read_from_the_config(steps: Any, size: tuple[int, int, int]) -> None:
    assert read_image_size({"train_pipeline": steps}) == size


class Symbols:
    """A dictionary as mmocr's, without mmocr."""

    def __init__(self, end: int | None, padding: int | None) -> None:
        self.dict = ["a", "b", "<END>", "<PAD>"]
        self.end_idx, self.padding_idx = end, padding


@pytest.mark.parametrize(
    ("end", "padding", "classes", "decoding", "special"),
    [
        (None, 3, ["a", "b", "<END>"], "ctc", 3),
        (2, 3, ["a", "b", ""], "attention", 2),
        (2, None, ["a", "b", "<PAD>"], "attention", 2),
    ],
)
def test_the_special_symbols_are_no_characters(
    end: int | None, padding: int | None, classes: list[str], decoding: str, special: int
) -> None:
    dictionary: Any = Symbols(end, padding)
    task = make_task({"model": {}}, (3, 32, 100), dictionary)
    assert task is not None
    assert (task["classes"], task["decoding"], task["special"]) == (classes, decoding, special)


def test_without_a_symbol_that_ends_a_text_there_is_no_task() -> None:
    dictionary: Any = Symbols(None, None)
    assert make_task({"model": {}}, (3, 32, 100), dictionary) is None


def test_other_models_get_no_rewriters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "enginebay_mmocr.recogniser", raising=False)
    assert list(plugin.rewriters(RewritersRequest(backend="onnxruntime", ir="onnx"))) == []
