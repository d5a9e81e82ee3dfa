"""The tables of a page: texts, sort keys, and no column that is empty in all rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

import enginebay as eb
from enginebay.authors import Latency
from enginebay.authors.arrays import OutputComparison
from enginebay.authors.sources import DataRecord
from enginebay_lab.evaluation.evaluation_rows import Evaluation, EvaluationRow, WorstItem
from enginebay_lab.measurement.benchmark import Benchmark
from enginebay_lab.measurement.benchmark_rows import Agreement, BenchmarkRow, Layer, Ratio
from enginebay_lab.measurement.machine import Machine
from enginebay_lab.reports.entries import ReportEntry
from enginebay_lab.reports.tables import (
    PageTable,
    TableCell,
    accuracy_table,
    has_one_speed_each,
    layer_times_table,
    make_table,
    metric_cell,
    number_cell,
    outputs_table,
    overview_table,
    speed_table,
)

MACHINE = Machine(processor="Xeon", cores=8, system="Linux", python="3.12", enginebay="0.1")


def shown(table: PageTable) -> list[dict[str, str]]:
    """The texts of each row by column."""
    return [
        dict(zip(table.columns, (cell.text for cell in row), strict=True)) for row in table.rows
    ]


def latency(median: float) -> Latency:
    return Latency(
        runs=100, median=median, low=median * 0.99, high=median * 1.01, mean=median, stdev=0.0,
        p90=median * 1.1, p99=median * 1.2, min=median, max=median * 2,
    )  # fmt: skip


def speed(name: str, median: float | None = 1e-3, **fields: Any) -> BenchmarkRow:
    call = None if median is None else latency(median)
    known: dict[str, Any] = {"backend": "ncnn", "batch": 1, "threads": 1, "call": call, **fields}
    return BenchmarkRow(name=name, **known)


def metric(**fields: Any) -> EvaluationRow:
    known: dict[str, Any] = {"artifact": "a", "backend": "ncnn", "metric": "accuracy", "count": 9}
    return EvaluationRow(**{**known, **fields})


cells = st.builds(TableCell, st.sampled_from(["", "", "x"]))


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(cells, min_size=n, max_size=n))))
def test_only_empty_columns_are_left_out(rows: list[list[TableCell]]) -> None:
    width = len(rows[0]) if rows else 2
    columns = [f"column {number}" for number in range(width)]
    table = make_table("caption", columns, iter(rows))
    kept = [name for n, name in enumerate(columns) if any(row[n].text for row in rows)]
    assert list(table.columns) == kept
    assert len(table.rows) == len(rows)
    assert all(len(row) == len(kept) for row in table.rows)
    everything = [cell.text for row in rows for cell in row if cell.text]
    assert [cell.text for row in table.rows for cell in row if cell.text] == everything


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, TableCell("", None, "number")),
        (0.0, TableCell("0", 0.0, "number")),
        (-1.5, TableCell("-1.5", -1.5, "number")),
    ],
)
def test_a_number_is_sorted_by_its_value(value: float | None, cell: TableCell) -> None:
    assert number_cell(value, lambda number: f"{number:g}") == cell


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (None, ""),
        (metric(value=0.123456), "0.1235"),
        (metric(), ""),
        (metric(error="it crashed", value=0.5), "lost"),
    ],
)
def test_cells_of_metrics(row: EvaluationRow | None, text: str) -> None:
    assert metric_cell(row).text == text


def test_the_overview_has_a_column_for_each_metric_and_pytorch_as_a_row() -> None:
    entries = [
        ReportEntry(backend="pytorch", label="PyTorch", speeds=[speed("pytorch", 4e-3)]),
        ReportEntry(
            backend="ncnn",
            label="ncnn fp16",
            verdict="verified",
            size=2048,
            seconds=1.25,
            metrics=[metric(value=0.9, reference=0.95), metric(metric="cosine", value=1.0)],
            speeds=[speed("a", 2e-3, ratio=Ratio(2.0, 1.9, 2.1), items_per_second=500.0)],
        ),
        ReportEntry(backend="openvino", label="openvino", verdict="failed"),
    ]
    table = overview_table(entries)
    assert table.caption == "All artifacts"
    pytorch, ncnn, openvino = shown(table)
    assert (pytorch["Backend"], pytorch["accuracy"], pytorch["Call"]) == (
        *("PyTorch", "0.95"),
        "4.00 ms",
    )
    assert (ncnn["Verdict"], ncnn["accuracy"], ncnn["cosine"]) == ("verified", "0.9", "1")
    assert (ncnn["Call"], ncnn["Speed"]) == ("2.00 ms", "2.00× (1.90–2.10)")
    assert (ncnn["Size"], ncnn["Deployed in"]) == ("2.0 KiB", "1.2 s")
    assert {text for name, text in openvino.items() if name not in ("Backend", "Verdict")} == {""}
    assert "Max error" not in table.columns  # no entry was compared


def test_batch_and_threads_are_shown_if_they_differ() -> None:
    def columns(*rows: BenchmarkRow) -> Any:
        return speed_table(Benchmark(rows=rows, machine=MACHINE), {}).columns

    assert "Batch" not in columns(speed("a"), speed("b"))
    assert "Batch" in columns(speed("a"), speed("a", batch=8))
    assert "Threads" in columns(speed("a"), speed("a", threads=2))


def test_a_row_of_speeds_has_its_interval_ratio_and_failure() -> None:
    agreement = Agreement(agreed=True, apart=0.014, wanted=0.02, windows=9, seconds=1.2)
    rows = (
        speed("a", agreement=agreement, ratio=Ratio(1.5, 1.4, 1.625), load=0.25, first=0.5),
        speed("b", None, failure="loading failed"),
    )
    table = speed_table(Benchmark(rows=rows, machine=MACHINE), {"a": "ncnn fp16"})
    fast, failed = shown(table)
    assert fast["Backend"] == "ncnn fp16"
    assert fast["Interval of the call"] == "990 µs – 1.01 ms"
    assert fast["Speed"] == "1.50× (1.40–1.62)"
    assert fast["Windows agree"] == "within 1.4 %"
    assert (failed["Backend"], failed["Windows agree"], failed["Call"]) == ("b", "failed", "")


def test_calls_are_in_the_overview_or_in_the_table_of_speeds_and_never_in_both() -> None:
    once = [ReportEntry(backend="ncnn", label="ncnn", speeds=[speed("a")])]
    twice = [ReportEntry(backend="ncnn", label="ncnn", speeds=[speed("a"), speed("a", batch=8)])]
    for entries in (once, twice):
        rows = tuple(row for entry in entries for row in entry.speeds)
        is_in_overview = has_one_speed_each(entries)
        detailed = speed_table(
            Benchmark(rows=rows, machine=MACHINE), {}, with_calls=not is_in_overview
        )
        assert ("Call" in overview_table(entries).columns) == is_in_overview
        assert ("Call" in detailed.columns) != is_in_overview
        assert "Interval of the call" in detailed.columns


def test_a_reason_that_only_counts_the_mismatches_is_left_out() -> None:
    def columns(reason: str) -> Any:
        output = OutputComparison(
            name="y", dtype="float32", shape=(9,), passed=False, total=9, mismatched_count=2,
            reason=reason,
        )  # fmt: skip
        verification = eb.Verification(verdict="mismatched", outputs=(output,))
        entry = ReportEntry(backend="ncnn", label="ncnn", verification=verification)
        return outputs_table(entry).columns

    assert "Reason" not in columns("2 of 9 elements differ")
    assert columns("its shape differs")[-1] == "Reason"


def test_accuracy_has_its_worst_items_and_losses() -> None:
    worst = tuple(WorstItem(number, 0.5) for number in (9, 3, 5, 1))
    rows = (
        metric(value=0.5, reference=0.75, drop=0.25, agreement=0.9, worst=worst, count=12_000),
        metric(artifact="b", error="the engine crashed"),
    )
    found = Evaluation(rows=rows, data=DataRecord(source="data.npz", count=9))
    table = accuracy_table(found, {"a": "ncnn"})
    assert table.caption == "Accuracy: accuracy"
    assert not {"Metric", "Value"} & set(accuracy_table(found, {}, with_values=False).columns)
    good, lost = shown(table)
    assert (good["Backend"], good["Value"], good["Drop"]) == ("ncnn", "0.5", "0.25")
    assert (good["Items"], good["Agreement"], good["Worst items"]) == (
        "12,000",
        "90.00%",
        "9, 3, 5",
    )
    assert (lost["Backend"], lost["Value"], lost["Lost"]) == ("b", "", "the engine crashed")


def test_layers_have_their_share_and_modules() -> None:
    layers = (
        Layer(name="conv", operator="Convolution", seconds=2e-3, share=0.75, modules=("a", "b.0")),
        Layer(name="relu", operator="", seconds=1e-6, share=0.25),
    )
    table = layer_times_table(speed("a", layers=layers), "ncnn")
    assert table.caption == "Time of each layer of ncnn"
    assert shown(table)[0] == {
        "Layer": "conv",
        "Operator": "Convolution",
        "Time": "2.00 ms",
        "Share": "75.0%",
        "Modules": "a, b.0",
    }


def test_an_entry_without_outputs_has_an_empty_table() -> None:
    table = outputs_table(ReportEntry(backend="ncnn", label="ncnn"))
    assert (table.caption, list(table.columns), list(table.rows)) == ("Outputs of ncnn", [], [])
