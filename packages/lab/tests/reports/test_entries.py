"""All results about an artifact become one entry, whatever path each of them has for it."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from enginebay import Verification
from enginebay.authors import Latency
from enginebay.authors.sources import DataRecord
from enginebay_lab.comparison.comparison import Comparison, ComparisonRow
from enginebay_lab.evaluation.evaluation_rows import Evaluation, EvaluationRow
from enginebay_lab.measurement.benchmark import Benchmark
from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
from enginebay_lab.measurement.machine import Machine
from enginebay_lab.reports.entries import ReportEntry, list_benchmarks, merge_entries
from enginebay_lab.reports.report import Report

MACHINE = Machine(processor="Xeon", cores=8, system="Linux", python="3.12", enginebay="0.1")


def metric(artifact: str, **fields: Any) -> EvaluationRow:
    known: dict[str, Any] = {"backend": "ncnn", "metric": "accuracy", "value": 0.5, **fields}
    return EvaluationRow(artifact=artifact, **known)


def speed(name: str, **fields: Any) -> BenchmarkRow:
    call = Latency(
        runs=9, median=1.0, low=1.0, high=1.0, mean=1.0, stdev=0.0, p90=1.0, p99=None, min=1.0,
        max=1.0,
    )  # fmt: skip
    known: dict[str, Any] = {"backend": "ncnn", "batch": 1, "threads": 1, "call": call, **fields}
    return BenchmarkRow(name=name, **known)


def compared(artifact: str | None, **fields: Any) -> ComparisonRow:
    known: dict[str, Any] = {"backend": "ncnn", "precision": "fp32", "verdict": "verified"}
    return ComparisonRow(artifact=artifact, **{**known, **fields})


def report(
    *,
    rows: tuple[ComparisonRow, ...] = (),
    metrics: tuple[EvaluationRow, ...] = (),
    speeds: tuple[BenchmarkRow, ...] = (),
) -> Report:
    data = DataRecord(source="data.npz", count=9)
    return Report(
        created="2026-01-31T12:00:00Z",
        comparisons=(Comparison(model="net", rows=rows),) if rows else (),
        evaluations=(Evaluation(rows=metrics, data=data),) if metrics else (),
        benchmarks=(Benchmark(rows=speeds, machine=MACHINE),) if speeds else (),
    )


def labels(entries: list[ReportEntry]) -> list[str]:
    return [entry.label for entry in entries]


def test_results_of_one_folder_are_one_entry() -> None:
    (entry,) = merge_entries(
        report(
            rows=(compared("/out/ncnn-fp32"),),
            metrics=(metric("/out/ncnn-fp32"), metric("ncnn-fp32", metric="cosine")),
            speeds=(speed("out/ncnn-fp32", artifact="/out/ncnn-fp32"),),
        )
    )
    assert (entry.label, entry.verdict) == ("ncnn fp32", "verified")
    assert [row.metric for row in entry.metrics] == ["accuracy", "cosine"]
    assert [row.name for row in entry.speeds] == ["out/ncnn-fp32"]


@pytest.mark.parametrize(
    "paths", list(permutations(["/a/out/x", "out/x", "x"])), ids=lambda paths: " ".join(paths)
)
def test_relative_paths_are_ends_of_an_absolute_path(paths: tuple[str, ...]) -> None:
    entries = merge_entries(report(metrics=tuple(metric(path) for path in paths)))
    assert len(entries) == 1


def test_a_path_with_two_matches_is_an_entry_of_its_own() -> None:
    entries = merge_entries(
        report(rows=(compared("/a/x"), compared("/b/x")), metrics=(metric("x"),))
    )
    assert [len(entry.metrics) for entry in entries] == [0, 0, 1]
    assert labels(entries) == ["ncnn fp32 (a/x)", "ncnn fp32 (b/x)", "ncnn"]


def test_a_relative_path_is_found_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = (compared(f"{tmp_path}/x"), compared("/elsewhere/x"))
    entries = merge_entries(report(rows=rows, metrics=(metric("x"),)))
    assert [len(entry.metrics) for entry in entries] == [1, 0]


def test_pytorch_is_the_first_entry() -> None:
    speeds = (speed("a", artifact="/a"), speed("pytorch", backend="pytorch"))
    entries = merge_entries(report(speeds=speeds))
    assert labels(entries) == ["PyTorch", "ncnn"]
    assert [entry.is_pytorch for entry in entries] == [True, False]


def test_rows_without_an_artifact_stay_apart() -> None:
    rows = (compared(None, verdict="failed"), compared(None, backend="openvino", verdict="failed"))
    assert labels(merge_entries(report(rows=rows))) == ["ncnn fp32", "openvino fp32"]


def test_the_label_has_the_precision_that_the_engine_computed_in() -> None:
    single = Verification(verdict="verified", precision="fp32")
    rows = (compared("/a", precision="fp16", verification=single),)
    (entry,) = merge_entries(report(rows=rows))
    assert entry.label == "ncnn fp16 → fp32"


def test_the_label_has_the_parameters_that_differ_between_rows() -> None:
    rows = [compared(f"/{n}", params={"threads": n}) for n in (1, 2)]
    assert labels(merge_entries(report(rows=rows))) == [
        "ncnn fp32 threads=1",
        "ncnn fp32 threads=2",
    ]


def test_the_precision_of_a_benchmark_fills_a_gap() -> None:
    (entry,) = merge_entries(report(speeds=(speed("a", artifact="/a", precision="fp16"),)))
    assert (entry.precision, entry.label) == ("fp16", "ncnn fp16")
    rows = (compared("/a", precision="int8"),)
    (entry,) = merge_entries(
        report(rows=rows, speeds=(speed("a", artifact="/a", precision="fp16"),))
    )
    assert entry.precision == "int8"


def test_a_benchmark_is_preferred_to_the_speed_of_a_comparison() -> None:
    rows = (compared("/a", speed=speed("a", artifact="/a", load=1.0)),)
    (entry,) = merge_entries(report(rows=rows))
    assert [row.load for row in entry.speeds] == [1.0]
    (entry,) = merge_entries(report(rows=rows, speeds=(speed("a", artifact="/a", load=2.0),)))
    assert [row.load for row in entry.speeds] == [2.0]


def test_the_speeds_of_a_comparison_are_a_benchmark() -> None:
    rows = (
        compared("/a", speed=speed("a", artifact="/a")),
        compared("/b", speed=speed("b", artifact="/b")),
        compared(None),
    )
    comparison = Comparison(model="net", rows=rows, machine=MACHINE, notes=("busy",))
    found = Report(created="2026-01-31T12:00:00Z", comparisons=(comparison,))
    (benchmark,) = list_benchmarks(found)
    assert ([row.name for row in benchmark.rows], benchmark.baseline) == (["a", "b"], "a")
    assert (benchmark.machine, benchmark.notes) == (MACHINE, ("busy",))
    longer = Benchmark(rows=(speed("a", artifact="/a"),), machine=MACHINE)
    both = list_benchmarks(msgspec.structs.replace(found, benchmarks=(longer,)))
    assert [[row.name for row in each.rows] for each in both] == [["a"], ["b"]]
    assert both[1].baseline == ""  # a single row is compared with nothing


def test_a_comparison_without_speeds_is_no_benchmark() -> None:
    assert list_benchmarks(report(rows=(compared("/a"),))) == []


parts = st.lists(st.sampled_from(["a", "b", "x"]), min_size=1, max_size=3)


@given(st.lists(parts, min_size=1, max_size=5, unique_by=tuple))
def test_labels_are_unique(folders: list[list[str]]) -> None:
    rows = tuple(compared(str(Path("/", *folder))) for folder in folders)
    entries = merge_entries(report(rows=rows))
    assert len(entries) == len(rows)
    assert len(set(labels(entries))) == len(rows)


@given(st.lists(parts, min_size=1, max_size=4, unique_by=tuple))
def test_no_result_is_lost(folders: list[list[str]]) -> None:
    metrics = tuple(metric("/".join(folder), count=n) for n, folder in enumerate(folders))
    entries = merge_entries(report(rows=(compared("/b/x"), compared("/a")), metrics=metrics))
    found = sorted(row.count for entry in entries for row in entry.metrics)
    assert found == list(range(len(metrics)))


def test_merging_does_not_change_the_report() -> None:
    made = report(rows=(compared("/a", speed=speed("a")),), metrics=(metric("/a"),))
    before = msgspec.json.encode(made)
    assert merge_entries(made) == merge_entries(made)
    assert msgspec.json.encode(made) == before
