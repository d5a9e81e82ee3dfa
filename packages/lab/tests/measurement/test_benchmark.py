"""What a benchmark prints: the figures of one row, or a table of several."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

import enginebay as eb
import enginebay_lab as lab
from enginebay.authors import Latency
from enginebay_lab.measurement.benchmark_rows import Agreement, Layer, Ratio
from enginebay_lab.measurement.machine import Machine

MACHINE = Machine(processor="p", cores=4, system="s", python="3", enginebay="0")


def row(name: str = "net", **given: Any) -> lab.BenchmarkRow:
    """Return a row whose calls take two milliseconds, and half of that in the engine."""
    fields: dict[str, Any] = {
        "backend": "loopback",
        "batch": 1,
        "threads": 1,
        "call": Latency.of([0.002] * 300),
        "engine": Latency.of([0.001] * 300),
        "calls_per_second": 500.0,
        "items_per_second": 500.0,
        "load": 1.5,
        "first": 0.25,
        "peak_memory": 300 * 2**20,
        "bare_memory": 100 * 2**20,
        "agreement": Agreement(agreed=True, apart=0.01, wanted=0.02, windows=9, seconds=1.2),
    }
    return lab.BenchmarkRow(name=name, **{**fields, **given})


def lost(name: str = "lost", **given: Any) -> lab.BenchmarkRow:
    return lab.BenchmarkRow(
        **{"name": name, "backend": "b", "batch": 1, "threads": 1, "failure": "it crashed", **given}
    )


def benchmark(*rows: lab.BenchmarkRow, **given: Any) -> lab.Benchmark:
    return lab.Benchmark(rows=rows, machine=MACHINE, **given)


def cells(measured: lab.Benchmark) -> list[list[str]]:
    """Return the cells of the table, in which two spaces separate columns."""
    lines = str(measured).splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


def test_one_row_has_both_latencies_and_its_fields() -> None:
    found = cells(benchmark(row(), notes=("the machine was busy",)))
    assert found == [
        ["MEDIAN", "95 % INTERVAL", "P90", "P99", "MIN", "MAX", "RUNS"],
        ["call", "2.00 ms", "2.00 ms – 2.00 ms", *["2.00 ms"] * 4, "300"],
        ["engine", "1.00 ms", "1.00 ms – 1.00 ms", *["1.00 ms"] * 4, "300"],
        ["rate", "500 calls/s, one after the other"],
        ["load", "1.50 s, then 250 ms for the first call"],
        ["memory", "300.0 MiB at most, 200.0 MiB more than before loading"],
        ["windows", "agreed within 1 % after 1.2 s"],
        ["note", "the machine was busy"],
    ]


def test_the_precision_is_shown_if_it_is_not_the_requested_one_or_rows_differ() -> None:
    fallen = row("a", requested="fp16", precision="fp32", receipt=eb.Receipt(device="cpu"))
    assert ["engine", "on cpu, fp16 → fp32"] in cells(benchmark(fallen))
    header, first, second, *_ = cells(benchmark(fallen, lost("b", requested="fp16")))
    assert (header[1], first[1], second[1]) == ("PRECISION", "fp16 → fp32", "fp16")
    header, first, *_ = cells(benchmark(fallen, fallen))
    assert (header[1], first[1]) == ("PRECISION", "fp16 → fp32")
    plain = row("a", requested="fp32", precision="fp32")
    header, *_ = cells(benchmark(plain, row("pytorch", precision="fp32")))
    assert "PRECISION" not in header


def test_percentiles_of_a_few_calls_are_missing() -> None:
    few = Latency.of([0.001, 0.002, 0.009])
    _, call, *_ = cells(benchmark(row(call=few)))
    assert call == ["call", "2.00 ms", "1.00 ms – 9.00 ms", "-", "-", "1.00 ms", "9.00 ms", "3"]


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        (
            {"batch": 8, "items_per_second": 4000.0},
            "500 calls/s, 4,000 items/s, one after the other",
        ),
        ({"threads": 4}, "2,000 calls/s, from 4 threads at once"),
        ({"call": None}, None),
    ],
)
def test_the_rate_names_items_and_threads(given: dict[str, Any], rate: str | None) -> None:
    found = dict(line for line in cells(benchmark(row(**given))) if len(line) == 2)
    assert found.get("rate") == rate


def test_a_row_that_failed_while_loading_prints_what_is_known() -> None:
    assert cells(benchmark(lost())) == []
    assert benchmark(lost(), row()).failures == ["'lost': it crashed"]
    assert benchmark(row()).failures == []


def test_a_table_hides_columns_in_which_all_rows_are_equal() -> None:
    header, *_ = cells(benchmark(row("a"), row("b")))
    assert header == [
        "ARTIFACT",
        "CALL",
        "ENGINE",
        "P90",
        "P99",
        "ITEMS/S",
        "MEMORY",
        "SPEED",
        "AGREED",
    ]
    header, first, second, *_ = cells(benchmark(row("a"), row("a", batch=8, threads=2)))
    assert header[:3] == ["ARTIFACT", "BATCH", "THREADS"]
    assert (first[:3], second[:3]) == (["a", "1", "1"], ["a", "8", "2"])


@pytest.mark.parametrize(
    ("ratio", "cell"),
    [
        (Ratio(2.0, 1.9, 2.1), "2.00× (1.90–2.10)"),
        (Ratio(0.5, 0.45, 0.55), "0.50× (0.45–0.55)"),
        (Ratio(1234.5, 1000.0, 2000.0), "1,230× (1,000–2,000)"),
    ],
)
def test_a_speed_has_its_interval(ratio: Ratio, cell: str) -> None:
    measured = benchmark(row("a"), row("b", ratio=ratio), baseline="a")
    _, first, second, *_ = cells(measured)
    assert (first[7], second[7]) == ("-", cell)
    assert cells(measured)[3] == [
        "note",
        (
            "SPEED is relative to 'a', with the 95 % confidence interval; shown only if both rows "
            "agreed (column AGREED)"
        ),
    ]


def test_the_agreement_says_within_no_or_failed() -> None:
    apart = Agreement(agreed=False, apart=0.5, wanted=0.02, windows=9, seconds=1.2)
    rows = (row("a"), row("b", agreement=apart), row("c", agreement=None), lost())
    assert [line[-1] for line in cells(benchmark(*rows))[1:5]] == [
        *("within 1 %", "no: 50 %", "-", "failed")
    ]
    assert cells(benchmark(*rows))[4] == ["lost", *"-------", "failed"]


def test_notes_and_fallbacks_are_those_of_their_rows() -> None:
    receipt = eb.Receipt(engine="e", device="cpu", fallbacks=("Tanh runs on the CPU",))
    rows = (row("a", notes=("slow",)), row("b", batch=8, threads=2, receipt=receipt))
    found = [line[1] for line in cells(benchmark(*rows, notes=("busy",))) if line[0] == "note"]
    rest = [line[0] for line in cells(benchmark(*rows, notes=("busy",))) if len(line) == 1]
    assert [*found, *rest] == ["'a': slow", "'b', batch 8, 2 threads: Tanh runs on the CPU", "busy"]


def test_layers_are_a_table_below() -> None:
    layers = (
        Layer(
            name="conv",
            operator="Conv",
            seconds=0.003,
            nodes=("n1", "n2"),
            share=0.75,
            modules=("", "b"),
        ),
        Layer(name="copy", operator="", seconds=0.001, nodes=(), share=0.25),
    )
    lines = cells(benchmark(row("net", layers=layers)))
    start = lines.index(["layers of 'net'"])
    assert lines[start + 1 :] == [
        ["LAYER", "OPERATOR", "TIME", "SHARE", "NODES", "MODULE"],
        ["conv", "Conv", "3.00 ms", "75.0%", "n1, n2", "(the model), b"],
        ["copy", "-", "1.00 ms", "25.0%", "-", "-"],
    ]


def test_a_benchmark_is_named_by_its_artifacts() -> None:
    assert repr(benchmark(row("a"), row("a", batch=8), row("b"))) == "<Benchmark of a, b>"


def test_a_benchmark_is_a_document_that_can_be_read_back() -> None:
    measured = benchmark(row(ratio=Ratio(1.0, 0.9, 1.1)), lost(), baseline="net")
    document = json.loads(json.dumps(measured.to_dict()))
    assert (document.pop("schema"), document["kind"]) == (1, "benchmark")
    assert document["rows"][1]["failure"] == "it crashed"
    assert document["rows"][1]["call"] is None
    assert msgspec.convert(document, lab.Benchmark) == measured
