"""The page of backend support matches the plugins, the conformance reports and the zoo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

import enginebay as eb
from enginebay_testing.conformance.report import Claims, Finding, Report
from enginebay_testing.conformance.suite import laws
from tests.backend_support import __main__ as command, reports
from tests.backend_support.page import PAGE, render
from tests.backend_support.reports import (
    KEPT,
    NAMES,
    STAND_INS,
    Kept,
    LeftOut,
    load,
    save,
    shortened,
)
from tests.zoo import results as zoo

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay_testing.conformance.report import Outcome

LAWS = [law.name for law in laws()]
KEEP = "run nox -s onnxruntime openvino ncnn tensorrt, then python -m tests.backend_support"


def test_page_in_the_docs_matches_the_stored_reports() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == render(load(), zoo.load()), "python -m tests.backend_support"


@pytest.mark.parametrize("name", NAMES)
def test_every_law_has_an_outcome(name: str) -> None:
    assert list(load()[name].laws) == LAWS, KEEP


@pytest.mark.parametrize("status", eb.list_backends(), ids=lambda status: status.name)
def test_stored_claims_match_the_plugin(status: eb.BackendStatus) -> None:
    assert load()[status.name].claims == Claims.of(eb.get_backend(status.name).info), KEEP


@pytest.mark.parametrize("name", NAMES)
def test_stored_report_matches_the_last_run_of_the_kit(name: str) -> None:
    report = reports.made(name)
    if report is None:
        session = STAND_INS.partition("-")[0] if name == STAND_INS else name
        pytest.skip(f"nox -s {session} has not run here, which leaves {name}.json")
    stored = load()[name]
    assert (stored.claims, stored.laws, stored.left_out) == (
        *(report.claims, report.laws, report.left_out),
    ), KEEP


def a_finding(law: str, outcome: Outcome, reason: str = "", case: str = "") -> Finding:
    return Finding(
        family="f", law=law, case=case, sentence="", outcome=outcome, reason=reason, seconds=1.5
    )


def test_stored_report_omits_seconds_of_a_run() -> None:
    claims = Claims(irs=("onnx",))
    report = Report(
        backend="mine",
        engine_version="3",
        claims=claims,
        findings=[
            a_finding("test_a", "held", case="1"),
            a_finding("test_b", "excused", "one context"),
            a_finding("test_a", "skipped", "no 2", case="2"),
        ],
    )
    assert shortened(report) == Kept(
        engine_version="3",
        claims=claims,
        laws={"test_a": {"held": 1, "skipped": 1}, "test_b": {"excused": 1}},
        left_out=(
            LeftOut(law="test_b", case="", outcome="excused", reason="one context"),
            LeftOut(law="test_a", case="2", outcome="skipped", reason="no 2"),
        ),
    )


def kept(change: dict[str, dict[Outcome, int]], **fields: object) -> Kept:
    every: dict[str, dict[Outcome, int]] = {law: {"held": 1} for law in LAWS}
    return Kept(laws=every | change, **fields)  # type: ignore[arg-type]


def test_the_page_shows_every_outcome() -> None:
    claims = Claims(
        irs=("onnx", "torchscript"),
        devices=("cpu", "npu"),
        dtypes=("float32",),
        precisions=("fp32",),
        dynamic_shapes=True,
        runtime_distributions=("one>=1 | other>=1", "tool"),
    )
    first, second, third, fourth, *_ = LAWS
    why = (
        LeftOut(law=second, case="int8", outcome="skipped", reason="no int8"),
        LeftOut(law=third, case="", outcome="excused", reason="one context"),
    )
    one = kept({second: {"held": 1, "skipped": 1}, third: {"excused": 1}}, left_out=why)
    two = kept({first: {"broken": 1}, second: {"held": 1, "skipped": 1}}, left_out=why[:1])
    many = tuple(LeftOut(law=law, case="", outcome="skipped", reason="no GPU") for law in LAWS[:4])
    three = kept({law: {"skipped": 1} for law in LAWS[:4]}, claims=claims, left_out=many)
    page = render({"one": one, "two": two, "three": three}, zoo.Results())
    assert "| IRs |  |  | onnx, torchscript |" in page
    assert "| several shapes from one artifact | no | no | yes |" in page
    assert "| runtime |  |  | `one>=1` or `other>=1` and `tool` |" in page
    names = {law.sentence.replace("``", "`"): law.name for law in laws()}
    cells = {names[text]: line for line in page.splitlines() for text in names if text in line}
    assert cells[first].endswith(" | ✓ | **1 broken** | – |")
    assert cells[second].endswith(" | 1 of 2 | 1 of 2 | – |")
    assert cells[third].endswith(" | – | ✓ | – |")
    cases = len(LAWS)
    assert f"| **{cases - 1} of {cases + 1}** | **{cases - 1} of {cases + 1}** |" in page
    assert f"| `{second}` (int8) | one, two | no int8 |" in page
    assert f"| `{third}`, by the backend itself | one | one context |" in page
    assert "| 4 cases of 4 laws | three | no GPU |" in page
    assert fourth not in page


def test_command_stores_new_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reports, "MADE", tmp_path)
    monkeypatch.setattr(command, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(command, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(command, "load", lambda: load(tmp_path / "kept.json"))
    monkeypatch.setattr(command, "save", lambda each: save(each, tmp_path / "kept.json"))
    assert command.main() == 1
    assert "onnxruntime.json: run nox -s onnxruntime openvino" in capsys.readouterr().out
    (tmp_path / "kept.json").write_bytes(KEPT.read_bytes())
    before = load()
    findings = [a_finding(law, "held") for law in LAWS]
    made = Report(backend="ncnn", engine_version="from a test", findings=findings)
    reports.MADE.joinpath("ncnn.json").write_bytes(msgspec.json.encode(made))
    assert command.main() == 0
    assert load(tmp_path / "kept.json") == before | {"ncnn": shortened(made)}
    assert "ncnn from a test" in (tmp_path / "page.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.startswith("ncnn is new in ")
