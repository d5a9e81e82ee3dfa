"""A few models of the zoo on every engine, and the code that measures all and writes the page."""

from __future__ import annotations

import os
import signal
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path  # noqa: TC003  # child processes read the annotations

import pytest
import torch
from torch import nn

from tests.zoo import cells
from tests.zoo.cells import measure, measure_here, measure_model
from tests.zoo.collection import COLLECTION
from tests.zoo.models import ZOO
from tests.zoo.page import render
from tests.zoo.results import (
    COLUMNS,
    RESULTS,
    Cell,
    Collection,
    Column,
    Results,
    installed,
    load,
    save,
)

#: The import name of this module in child processes; pytest uses a different name.
HERE = "tests.zoo.test_zoo"
FEW = [
    *(Column(backend, "torchscript") for backend in ("onnxruntime", "openvino")),
    Column("ncnn", None),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("model", ["llama", "resnet", "swin"])
def test_a_few_models_are_verified_on_every_engine(model: str) -> None:
    measured = measure_model(model, FEW)
    assert [(cell.column, cell.state, cell.reason) for cell in measured] == [
        (column, "verified", "") for column in FEW
    ]
    assert all(cell.worst is not None and cell.worst < 1e-4 and cell.via for cell in measured)


@pytest.mark.skipif(
    find_spec("tensorrt_rtx_bindings") is None, reason="TensorRT for RTX is not installed"
)
def test_model_is_built_for_an_absent_gpu() -> None:
    (found,) = measure_model("fnet", [Column("tensorrt-rtx", "torchscript")])
    assert (found.state, found.reason) == ("built", "")
    assert found.worst is not None
    assert 0 < found.worst < 1e-4


class Cache:
    """A cache of a class that neither an exporter nor an engine knows."""

    def __init__(self, *held: torch.Tensor) -> None:
        self.held = held


class Cached(nn.Module):
    def forward(self, x: torch.Tensor, past: Cache) -> torch.Tensor:
        return torch.cat([*past.held, x])


def test_cache_exported_as_a_constant_is_not_verified() -> None:
    inputs = {"x": torch.rand(1, 4), "past": Cache(torch.rand(3, 4))}
    models = COLLECTION._replace(build=lambda _: (Cached(), inputs))
    cell = measure(models, "cached", Column("onnxruntime", None))
    assert (cell.state, cell.reason) == (
        "unverified",
        "tensors in an object of the example are constants of the artifact",
    )


class Bessel(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x)


def test_refused_deployment_is_unsupported_with_its_reason() -> None:
    models = COLLECTION._replace(build=lambda _: (Bessel(), {"x": torch.rand(1, 4)}))
    cell = measure(models, "bessel", Column("onnxruntime", "torchscript"))
    assert cell.state == "unsupported"
    assert "aten::special_bessel_j0" in cell.reason
    assert "\n" not in cell.reason


def test_model_that_cannot_be_built_is_a_broken_cell() -> None:
    cell = measure(COLLECTION, "unicorn", FEW[0])
    assert (cell.state, cell.reason) == ("broken", "KeyError: 'unicorn'")


def crash_at_openvino(model: str, columns: list[Column], journal: Path, package: str) -> None:
    """Crash in the child process, as an engine might."""
    for column in columns:
        if column.backend == "openvino":
            os.kill(os.getpid(), signal.SIGSEGV)
        cells._write(journal, Cell(model=model, column=column, state="verified"))


def late_everywhere(model: str, columns: list[Column], journal: Path, package: str) -> None:
    """Reach the time limit in the child process."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.pause()


def crash_at_the_end(model: str, columns: list[Column], journal: Path, package: str) -> None:
    """Crash in the child process after the last cell, as an engine might when it is unloaded."""
    for column in columns:
        cells._write(journal, Cell(model=model, column=column, state="verified"))
    os.abort()


def test_crash_loses_a_single_cell() -> None:
    measured = measure_model("bert", FEW, f"{HERE}:crash_at_openvino")
    assert [cell.state for cell in measured] == ["verified", "crashed", "verified"]
    assert [cell.column for cell in measured] == FEW
    assert "SIGSEGV" in measured[1].reason


def test_hanging_model_is_ended_with_crashed_cells() -> None:
    measured = measure_model("bert", FEW, f"{HERE}:late_everywhere")
    assert {(cell.state, cell.reason) for cell in measured} == {("crashed", "it ran past 180 s")}


def test_crash_after_the_last_cell_changes_no_cell() -> None:
    measured = measure_model("bert", FEW, f"{HERE}:crash_at_the_end")
    assert [cell.state for cell in measured] == ["verified"] * 3


def test_each_cell_is_written_as_soon_as_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = tmp_path / "cells.jsonl"

    def measured(models: Collection, model: str, column: Column) -> Cell:
        assert len(journal.read_text().splitlines() if journal.exists() else []) == len(seen)
        seen.append(column)
        return Cell(model=model, column=column, state="verified")

    seen: list[Column] = []
    monkeypatch.setattr(cells, "measure", measured)
    measure_here("bert", FEW, journal, "tests.zoo")
    assert seen == FEW


def a_cell(model: str, column: Column, **fields: object) -> Cell:
    return Cell(model=model, column=column, **{"state": "verified", **fields})  # type: ignore[arg-type]


def test_results_hold_the_newest_of_each_cell_in_zoo_order(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results = Results(versions={"torch": "2"})
    results.put([a_cell("vit", COLUMNS[1]), a_cell("gone", COLUMNS[0])], "2026-01-01", ["bert"])
    assert results.cells == []
    results.put([a_cell("vit", column) for column in COLUMNS[1::-1]], "2026-01-02", ZOO)
    results.put([a_cell("vit", COLUMNS[1], seconds=3.0)], "2026-01-03", ZOO)
    results.put([a_cell("bert", COLUMNS[4])], "2026-01-04", ZOO)
    save(results, path)
    stored = load(path)
    assert stored == results
    assert [(c.model, c.column, c.seconds) for c in stored.cells] == [
        ("bert", COLUMNS[4], 0.0),
        ("vit", COLUMNS[0], 0.0),
        ("vit", COLUMNS[1], 3.0),
    ]
    assert (stored.date, load(tmp_path / "none.json").cells) == ("2026-01-04", [])
    assert installed()["torch"] == version("torch")


def test_only_a_changed_version_drops_figures() -> None:
    results = Results(versions={"torch": "2", "ncnn": "1"}, cells=[a_cell("vit", COLUMNS[0])])
    results.renew({"torch": "2", "tensorrt": "11"})
    assert results.versions == {"torch": "2", "ncnn": "1", "tensorrt": "11"}
    assert results.cells == [a_cell("vit", COLUMNS[0])]
    results.renew({"torch": "3"})
    assert (results.versions["torch"], results.cells) == ("3", [])


def test_missing_package_has_no_version() -> None:
    assert installed(("torch", "no-such-engine")) == {"torch": version("torch")}


def test_built_cell_does_not_count_as_verified() -> None:
    rtx = COLUMNS[-1]
    page = render(Results(cells=[a_cell("bert", rtx, state="built", worst=1e-6, seconds=2.0)]))
    for line in (
        "|  | verified | built | models |",
        "| tensorrt-rtx, torchscript | 0 | 1 | 1 |",
        "| bert | text | – | – | – | – | – | – | built 1e-06, 2 s |",
    ):
        assert line in page
    assert "and why" not in page


def test_the_page_shows_every_state() -> None:
    ort, ncnn = COLUMNS[1], COLUMNS[4]
    results = Results(
        date="2026-01-02",
        versions={"torch": "2.13.0"},
        cells=[
            a_cell("bert", ort, worst=1.23e-6, seconds=2.4, via="onnx by torch.onnx torchscript"),
            a_cell("bert", ncnn, state="mismatched", worst=0.5, seconds=3.0, reason="a | b <c>"),
            a_cell("vit", ort, worst=0.0, seconds=1.0, via="torchscript by torch.jit.trace"),
            a_cell("vit", ncnn, state="unsupported", reason="no layer"),
        ],
    )
    page = render(results)
    for line in (
        "2 small architectures from",
        "Measured on 2026-01-02 with torch 2.13.0.",
        "|  | verified | mismatched | unsupported | models |",
        "| onnxruntime, torchscript | 2 | 0 | 0 | 2 |",
        "| onnxruntime, dynamo | 0 | 0 | 0 | 0 |",
        "| ncnn | 0 | 1 | 1 | 2 |",
        "| bert | text | – | ✓ 1e-06, 2 s | – | – | **mismatched** 5e-01, 3 s | – | – |",
        "| vit | vision | – | ✓ 0e+00, 1 s | – | – | **unsupported** 0 s | – | – |",
        "| bert | ncnn | mismatched | a \\| b &lt;c> |",
        "| vit | ncnn | unsupported | no layer |",
        "| vit | onnxruntime, torchscript | torchscript by torch.jit.trace |",
    ):
        assert line in page


def test_a_page_without_failures_has_no_list_of_them() -> None:
    page = render(Results(cells=[a_cell("bert", COLUMNS[4])]))
    assert "Neither verified nor built" not in page
    assert "a different IR" not in page


def test_page_in_the_docs_matches_the_results() -> None:
    results = load(RESULTS)
    assert COLLECTION.page.read_text() == COLLECTION.render(results)
    measured = {(cell.model, cell.column) for cell in results.cells}
    missing = {(name, column) for name in ZOO for column in COLUMNS} - measured
    assert not missing, "run: nox -s zoo -- --missing"
