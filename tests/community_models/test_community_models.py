"""The models, their results and their page are consistent; their packages are not needed."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # pytest reads the annotations of tests

import pytest

from tests.community_models.batches import BATCHES
from tests.community_models.collection import COLLECTION, PACKAGES
from tests.community_models.models import MODELS
from tests.community_models.page import COLUMNS, FIRST, render
from tests.zoo.__main__ import main
from tests.zoo.results import Cell, Results, keep_first, load, save

NCNN = COLUMNS[2]


def test_model_names_are_unique_across_batches() -> None:
    assert len(MODELS) == sum(len(models) for models in BATCHES.values())


def test_unknown_model_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["community_models", "unicorn"])
    with pytest.raises(SystemExit, match="2"):
        main("tests.community_models")
    message = "no model 'unicorn' in the community-models collection; it has tf_eff"
    assert message in capsys.readouterr().err


def test_packages_contain_those_of_the_models_alone() -> None:
    assert {"timm", "torchvision", "e3nn"} <= set(PACKAGES)
    assert "numpy" not in PACKAGES


def test_a_first_result_is_never_replaced(tmp_path: Path) -> None:
    models = COLLECTION._replace(first=tmp_path / "first.json")
    for state in ("broken", "unsupported", "verified"):
        cell = Cell(model="gcn", column=NCNN, state=state)
        keep_first(Results(date="2026-01-02", versions={"torch": "2"}, cells=[cell]), models)
    first = load(tmp_path / "first.json")
    assert first == Results(
        date="2026-01-02",
        versions={"torch": "2"},
        cells=[Cell(model="gcn", column=NCNN, state="unsupported")],
    )


def test_the_page_has_the_first_results_by_batch(tmp_path: Path) -> None:
    first = tmp_path / "first.json"
    cells = [
        Cell(model="gcn", column=NCNN, state="unsupported", reason="no scatter"),
        Cell(model="gat", column=NCNN, state="verified"),
        Cell(model="vocos", column=NCNN, state="verified"),
    ]
    save(Results(cells=cells), first)
    now = [Cell(model="gcn", column=NCNN, state="verified", worst=1e-6, seconds=2.0)]
    page = render(Results(date="2026-01-02", cells=now), first)
    for line in (
        "1 models from the packages",
        f"{len(MODELS) - 1} models of the list have not been deployed yet",
        "| tables, graphs, series, control | 2 | 0 | 0 | 1 |",
        "| audio | 1 | 0 | 0 | 1 |",
        "| **all** | 3 | 0 | 0 | 2 |",
        "| ncnn | 1 | 1 |",
        "| gcn | tables, graphs, series, control | – | – | ✓ 1e-06, 2 s |",
    ):
        assert line in page


def test_page_in_the_docs_matches_the_results() -> None:
    results, first = load(COLLECTION.results), load(FIRST)
    assert COLLECTION.page.read_text(encoding="utf-8") == render(results)
    measured = {cell.model for cell in first.cells}
    assert measured <= set(MODELS)
    wanted = {(name, column) for name in measured for column in COLUMNS}
    assert {(cell.model, cell.column) for cell in results.cells} == wanted
    assert {(cell.model, cell.column) for cell in first.cells} == wanted
