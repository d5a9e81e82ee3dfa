"""A sweep on a report's page: verdicts by model and engine, figures by machine, lost cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from enginebay import Verification
from enginebay.environment import Tier, failed
from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
from enginebay_lab.measurement.machine import Machine
from enginebay_lab.reports.sweep_section import describe_sweep, summarize_sweep
from enginebay_lab.sweeps.sweep_rows import Sweep, SweepRow

if TYPE_CHECKING:
    from enginebay_lab.reports.tables import PageTable

MACHINE = Machine(processor="Xeon", cores=8, system="Linux", python="3.12", enginebay="0.1")


def row(model: str, backend: str = "ncnn", verdict: str = "verified", **fields: Any) -> SweepRow:
    known: dict[str, Any] = {"precision": "", "host": "ann", **fields}
    key = f"{model}{backend}{known}"
    return SweepRow(key=key, model=model, backend=backend, verdict=verdict, **known)


def section(*rows: SweepRow, **fields: Any) -> dict[str, Any]:
    return describe_sweep(Sweep(rows=rows, **fields))


def texts(table: PageTable) -> list[list[str]]:
    return [[cell.text for cell in cells] for cells in table.rows]


def verdicts(*rows: SweepRow) -> tuple[list[str], list[list[str]]]:
    table = section(*rows)["tables"][0]
    return list(table.columns), texts(table)


def test_verdicts_have_a_row_for_each_model_and_a_column_for_each_engine() -> None:
    found = verdicts(
        row("a", precision="fp32"),
        row("a", precision="fp16", verdict="mismatched"),
        row("b", precision="fp32", verdict="failed"),
    )
    assert found == (
        ["Model", "ncnn fp32", "ncnn fp16"],
        [["a", "verified", "mismatched"], ["b", "failed", ""]],
    )


def test_figures_show_the_precision_that_the_engine_computed_in() -> None:
    single = Verification(verdict="verified", precision="fp32")
    tables = section(row("a", precision="fp16", verification=single))["tables"]
    (figures,) = [table for table in tables if table.caption.startswith("Figures")]
    assert texts(figures)[0][:2] == ["a", "ncnn fp16 → fp32"]


@pytest.mark.parametrize(
    "rows",
    [(), (row("a"),), (row("a"), row("b")), (row("a"), row("a", "openvino"))],
    ids=["none", "one", "one engine", "one model"],
)
def test_a_single_model_or_engine_has_no_matrix(rows: tuple[SweepRow, ...]) -> None:
    assert verdicts(*rows)[1] == []


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("verified", "mismatched", "mismatched"),
        ("failed", "mismatched", "failed"),
        ("lost", "verified", "verified"),
        ("lost", "lost", "lost"),
    ],
)
def test_of_two_cells_in_one_place_the_worse_verdict_is_shown(
    one: str, other: str, shown: str
) -> None:
    for first, second in ((one, other), (other, one)):
        _, (cells, _) = verdicts(
            row("a", verdict=first, seconds=1.0), row("a", verdict=second), row("b", "openvino")
        )
        assert cells == ["a", shown, ""]


def test_many_engines_are_shown_as_signs() -> None:
    rows = [row(model, f"engine{n}") for model in "ab" for n in range(5)]
    rows[3] = row("a", "engine3", "crashed")
    table = section(*rows)["tables"][0]
    assert table.caption == "Verdicts: ✓ verified, ! crashed"
    assert {cell.kind for cells in table.rows for cell in cells[1:]} == {"sign"}


def test_a_lost_cell_is_in_the_column_of_its_backends_only_precision() -> None:
    columns, cells = verdicts(
        row("a", precision="fp32"), row("b", verdict="lost"), row("b", "openvino")
    )
    assert columns == ["Model", "ncnn fp32", "openvino"]
    assert cells[1] == ["b", "lost", "verified"]
    columns, _ = verdicts(
        row("a", precision="fp32"), row("a", precision="fp16"), row("b", verdict="lost")
    )
    assert columns == ["Model", "ncnn fp32", "ncnn fp16", "ncnn"]


def test_figures_are_grouped_by_machine_and_lost_cells_are_apart() -> None:
    lost = row("c", verdict="lost", fault="disk", reason="it is full", hint="free space", host="")
    metric = EvaluationRow(artifact="a", backend="ncnn", metric="accuracy", value=0.875)
    tables = section(
        row("a", host="bob", metrics=(metric,), size=2048, attempts=2), row("b"), lost
    )["tables"]
    captions = [table.caption for table in tables]
    assert captions == [
        *("Verdicts", "Figures of unknown machine", "Figures of ann", "Figures of bob"),
        "Lost: no result",
    ]
    assert texts(tables[1]) == []
    assert texts(tables[2]) == [["b", "ncnn", "verified"]]
    assert list(tables[3].columns) == [
        "Model",
        "Backend",
        "Verdict",
        "accuracy",
        "Size",
        "Attempts",
    ]
    assert texts(tables[3]) == [["a", "ncnn", "verified", "0.875", "2.0 KiB", "2"]]
    assert texts(tables[4]) == [["c", "ncnn", "disk", "it is full; hint: free space"]]


def test_an_unknown_duration_is_not_zero() -> None:
    known, unknown = section(row("a", seconds=1.25), row("b"))["tables"][1].rows
    assert [cells[3].text for cells in (known, unknown)] == ["1.2 s", ""]


def test_problems_are_rows_with_a_reason_that_are_not_lost() -> None:
    wrong = row("a", verdict="mismatched", reason="y is wrong")
    lost = row("b", verdict="lost", reason="it is full")
    assert section(wrong, lost, row("c"))["problems"] == [wrong]


def test_facts_of_a_machine_are_listed_once() -> None:
    environment = failed(Tier.DEVICE, "driver", found="too old", fix="update it")
    found = section(
        row("a", machine=MACHINE, versions={"torch": "2.13"}),
        row("b", machine=MACHINE, versions={"torch": "2.13"}, environment=environment),
    )["hosts"]
    ((host, facts),) = found
    assert host == "ann"
    assert facts.count(("torch", "2.13")) == 1
    assert ("ncnn", "driver: too old") in facts
    assert len(facts) == len(set(facts))


def test_a_machine_without_facts_is_left_out() -> None:
    assert section(row("a"))["hosts"] == []


@pytest.mark.parametrize(
    ("sweep", "sentences"),
    [
        (Sweep(rows=(row("a"),)), ["1 of 1 verified: 1 model."]),
        (
            Sweep(
                rows=(
                    row("a"),
                    row("b", verdict="lost", host=""),
                    row("b", "openvino", "failed", host="bob"),
                    row("b", "openvino", "failed"),
                ),
                regressions=("slower", "worse"),
            ),
            [
                "2 regressions since the baseline.",
                "1 of 4 verified, 2 failed, 1 lost: 2 models, on 2 machines.",
            ],
        ),
        (
            Sweep(rows=(row("a", verdict="new"),), regressions=("slower",)),
            ["1 regression since the baseline.", "0 of 1 verified, 1 new: 1 model."],
        ),
    ],
    ids=["verified", "several", "a later verdict"],
)
def test_the_summary_counts(sweep: Sweep, sentences: list[str]) -> None:
    assert list(summarize_sweep(sweep)) == sentences
