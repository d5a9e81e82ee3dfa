"""The rows of a comparison: their table, the fastest of them, and their file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from enginebay import Receipt, Verification
from enginebay.authors import Latency
from enginebay.errors import EnginebayError, UsageError
from enginebay_lab.comparison.comparison import ROWS_FILE, Comparison, ComparisonRow
from enginebay_lab.measurement.benchmark_rows import BenchmarkRow, Window
from enginebay_lab.reports.documents import read_document

if TYPE_CHECKING:
    from pathlib import Path


def speed(name: str, median: float | None) -> BenchmarkRow:
    call = median and Latency(
        runs=9, median=median, low=median, high=median, mean=median, stdev=0.0, p90=median,
        p99=None, min=median, max=median,
    )  # fmt: skip
    windows = tuple(
        Window(number, 9, median or 1.0, median or 1.0, 1 / (median or 1.0)) for number in range(8)
    )
    return BenchmarkRow(
        name=name, artifact=name, backend="ncnn", batch=1, threads=1, call=call or None,
        windows=windows if call else (), failure="" if call else "it crashed",
        items_per_second=None if not median else 1 / median,
    )  # fmt: skip


def row(backend: str = "ncnn", verdict: str = "verified", **fields: Any) -> ComparisonRow:
    return ComparisonRow(
        backend=backend, precision=fields.pop("precision", ""), verdict=verdict, **fields
    )


def compared(*rows: ComparisonRow, **fields: Any) -> Comparison:
    return Comparison(model="net.py:build", rows=rows, **fields)


def test_the_table_without_speeds() -> None:
    found = compared(
        row(precision="fp16", artifact="/out/ncnn-fp16", size=2048, seconds=1.5),
        row("openvino", "failed", reason="it cannot convert", hint="update it"),
        reference="PyTorch",
        notes=("busy",),
    )
    lines = [line.rstrip() for line in str(found).splitlines()]
    assert lines == [
        "BACKEND   PRECISION  VERDICT   MAX ERROR     SIZE  DEPLOY",
        "ncnn      fp16       verified          -  2.0 KiB  1.50 s",
        "openvino  -          failed            -        -       -",
        "",
        "reference  PyTorch",
        "openvino   it cannot convert",
        "           hint: update it",
        "note       busy",
        "folder     /out",
    ]
    assert repr(found) == "<Comparison of net.py:build, rows: 2>"


def test_a_precision_that_the_engine_did_not_compute_in_is_shown_with_the_one_it_did() -> None:
    half = Verification(verdict="verified", precision="fp16")
    single = Verification(verdict="verified", precision="fp32")
    found = compared(
        row("openvino", precision="fp16", verification=half),
        row("openvino", precision="fp16", verification=single, artifact="a", speed=speed("a", 1.0)),
    )
    lines = str(found).splitlines()
    assert lines[1].split()[:3] == ["openvino", "fp16", "verified"]
    assert lines[2].split()[:5] == ["openvino", "fp16", "→", "fp32", "verified"]
    assert "fastest  openvino fp16 → fp32, among the verified" in str(found)


def test_speeds_add_columns_and_failures_of_the_benchmark() -> None:
    found = compared(
        row(artifact="a", speed=speed("a", 1e-3)),
        row("openvino", artifact="b", speed=speed("b", None)),
        row("mine", "failed", reason="no"),
    )
    lines = str(found).splitlines()
    assert lines[0].split()[-4:] == ["CALL", "ITEMS/S", "LOAD", "MEMORY"]
    assert lines[1].split()[-5:] == ["1.00", "ms", "1,000", "-", "-"]
    assert lines[2].split()[-4:] == ["-"] * 4
    assert "openvino  the artifact could not be measured: it crashed" in lines
    assert "fastest   ncnn, among the verified" in lines


def test_rows_of_one_backend_have_their_parameters_and_engines() -> None:
    def provided(package: str, name: str, **fields: Any) -> ComparisonRow:
        receipt = Receipt(device="cpu", engine=f"ort 1.0{package}", provider=name)
        return row("ort", params={"providers": [name]}, receipt=receipt, **fields)

    rows = (
        provided("", "CPU", precision="fp32"),
        provided(
            ", mine 2.0", "mine", precision="fp32", verdict="mismatched", reason="no\nplace 1"
        ),
        row(receipt=Receipt(device="cpu", engine="ncnn 1.0")),
    )
    lines = [line.rstrip() for line in str(compared(*rows)).splitlines()]
    assert [line[:30].split() for line in lines[1:4]] == [
        ["ort", "providers=CPU", "fp32"],
        ["ort", "providers=mine", "fp32"],
        ["ncnn", "-"],
    ]
    assert lines[5:] == [
        "ort providers=CPU        ort 1.0 on CPU",
        "ort providers=mine       ort 1.0, mine 2.0 on mine",
        "ort fp32 providers=mine  no",
        "                         place 1",
    ]


def test_only_verified_rows_are_the_fastest() -> None:
    found = compared(
        row("wrong", "mismatched", artifact="w", speed=speed("w", 1e-6)),
        row("slow", artifact="s", speed=speed("s", 1e-1)),
        row("fast", artifact="f", speed=speed("f", 1e-3)),
        row("unmeasured", artifact="u"),
    )
    assert [each.backend for each in found.fastest] == ["fast"]
    assert [each.backend for each in found.verified] == ["slow", "fast", "unmeasured"]
    assert compared(row()).fastest == ()


def test_a_latency_needs_a_measurement() -> None:
    assert row(speed=speed("a", 0.5)).latency == 0.5
    assert row(speed=speed("a", None)).latency is None
    assert row().latency is None


@pytest.mark.parametrize(
    ("err", "fields"),
    [
        (UsageError("no", hint="yes"), ("failed", "no", "yes")),
        (EnginebayError("no"), ("failed", "no", "")),
    ],
)
def test_an_error_is_the_reason_of_a_row(err: EnginebayError, fields: tuple[str, ...]) -> None:
    found = row("ncnn", "verified", seconds=2.0, precision="fp16").with_error(err)
    assert (found.verdict, found.reason, found.hint) == fields
    assert (found.backend, found.precision, found.seconds) == ("ncnn", "fp16", 2.0)


def test_the_file_is_read_as_a_document(tmp_path: Path) -> None:
    found = compared(row(artifact="a", speed=speed("a", 1e-3), notes=("one",)), command="make")
    found.save(tmp_path)
    assert read_document(tmp_path / ROWS_FILE) == found
    plain = json.loads((tmp_path / ROWS_FILE).read_text())
    assert plain == json.loads(msgspec.json.encode(found))
    assert plain["kind"] == "comparison"


def test_a_file_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    (tmp_path / ROWS_FILE).write_text(
        '{"kind": "comparison", "model": "net", "rows": [{"backend": "ncnn", "precision": "", '
        '"verdict": "failed", "reason": "no", "of_a_later_version": 1}]}'
    )
    found = read_document(tmp_path / ROWS_FILE)
    assert isinstance(found, Comparison)
    assert found.rows == (row("ncnn", "failed", reason="no"),)
