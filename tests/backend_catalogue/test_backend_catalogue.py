"""The catalogue's page is made from the authors' entries and the conformance reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from enginebay_testing.conformance.report import Claims, Finding, Report

from .catalogue import ENTRIES, KEPT, PAGE, Entry, Row, entries, load, made, published, render

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay_testing.conformance.report import Outcome


def a_finding(outcome: Outcome, case: str = "") -> Finding:
    return Finding(
        family="", law="", case=case, sentence="", outcome=outcome, reason="", seconds=0.0
    )


def test_page_in_the_docs_matches_the_stored_rows() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == render(entries(), load(KEPT)), "tests.backend_catalogue"


def test_entry_has_three_lines_and_no_other_field(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ENTRIES.read_text(encoding="utf-8").splitlines()
    written = [line for line in lines if line and not line.startswith("#")]
    assert len(written) == sum(3 + bool(entry.report) for entry in entries().values())
    with pytest.raises(msgspec.ValidationError, match="unknown field `engine`"):
        msgspec.convert({"install": "a", "home": "b", "engine": "c"}, Entry)


def test_third_party_backend_has_a_row_on_the_page(tmp_path: Path) -> None:
    report = Report(
        backend="mine",
        distribution="msgspec",
        version="1",
        engine_version="3",
        claims=Claims(irs=("onnx",), devices=("cpu", "npu")),
        findings=[a_finding("held"), a_finding("broken"), a_finding("skipped")],
        operators=[a_finding("held"), a_finding("skipped"), a_finding("broken", "a: n | k")],
    )
    (tmp_path / "mine.json").write_bytes(msgspec.json.encode(report))
    row = made(tmp_path / "mine.json")
    assert isinstance(row, Row)
    assert made(tmp_path / "none.json") is None
    report.operators = report.operators[1:2]  # skipped: the engine is not there
    (tmp_path / "absent.json").write_bytes(msgspec.json.encode(report))
    assert published(Entry("enginebay-mine", "https://x.y")) is None
    address = (tmp_path / "mine.json").as_uri()
    assert published(Entry("enginebay-mine", "https://x.y", address)) == row
    absent = made(tmp_path / "absent.json")
    assert absent is not None
    assert absent.operators == {}
    wanted = {name: Entry(f"enginebay-{name}", "https://x.y") for name in ("mine", "new")}
    page = render(wanted, {"mine": row})
    assert (
        "| [mine](https://x.y) | `enginebay-mine` |  | 3 | 1 of 2 | 1 verified, 1 refused, 1 "
        in page
    )
    assert "| [new](https://x.y) | `enginebay-new` |  |  | not tried yet |  |" in page
    assert "| mine | onnx | cpu, npu |  |  |" in page
    assert "| mine | `n \\| k` |" in page
