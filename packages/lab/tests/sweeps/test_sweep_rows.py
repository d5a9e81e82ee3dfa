"""The rows of a sweep: what fails a release, what is printed, and what old files contain."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

import enginebay as eb
import enginebay_lab as lab
from enginebay import Verification
from enginebay.environment import Tier, failed
from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
from enginebay_lab.journal import Journal
from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
from enginebay_lab.measurement.machine import Machine
from enginebay_lab.sweeps.cells import format_label
from enginebay_lab.sweeps.rows_file import ROWS_FILE, RowsFile, read_rows
from enginebay_lab.sweeps.sweep_rows import ROW_KIND, Sweep, SweepRow

MACHINE = Machine(processor="Xeon", cores=8, system="Linux", python="3.12", enginebay="0.1")
change = msgspec.structs.replace


def row(number: int = 0, verdict: str = "verified", **fields: Any) -> SweepRow:
    known: dict[str, Any] = {"model": f"net{number}.py:build", "backend": "ncnn", **fields}
    return SweepRow(key=str(number), precision=known.pop("precision", ""), verdict=verdict, **known)


def metric(**fields: Any) -> EvaluationRow:
    known: dict[str, Any] = {"artifact": "a", "backend": "b", "metric": "accuracy", "count": 50}
    return EvaluationRow(**{**known, **fields})


@pytest.mark.parametrize(
    ("verdict", "artifact", "passes"),
    [
        ("verified", "a", True),
        ("verified", None, True),
        ("unverified", "a", True),  # built for another machine
        ("unverified", None, False),
        ("mismatched", None, False),
        ("mismatched", "a", False),
        ("crashed", None, False),
        ("failed", None, False),
        ("lost", None, False),
        ("other", "a", False),  # of a later Enginebay
    ],
)
def test_which_verdicts_pass(verdict: str, artifact: str | None, passes: bool) -> None:
    swept = Sweep(rows=(row(verdict=verdict, artifact=artifact),))
    assert (swept.wrong == ()) == passes
    assert (swept.failures == ()) == passes


def test_a_failure_has_the_label_and_the_reason() -> None:
    rows = (
        row(1, "mismatched", precision="fp16", params={"threads": 2}, reason="y is wrong"),
        row(2, "lost"),
    )
    assert Sweep(rows=rows).failures == (
        "net1.py:build on ncnn fp16 threads=2 is mismatched: y is wrong",
        "net2.py:build on ncnn is lost",
    )


def test_the_table_shows_the_precision_that_the_engine_computed_in() -> None:
    single = Verification(verdict="verified", precision="fp32")
    (line,) = [
        line
        for line in str(Sweep(rows=(row(precision="fp16", verification=single),))).splitlines()
        if "verified" in line
    ]
    assert line.split()[:5] == ["net0.py:build", "ncnn", "fp16", "→", "fp32"]


def test_a_judged_row_fails_only_by_a_regression() -> None:
    wrong = row(1, "mismatched", metrics=(metric(error="it raised"),))
    assert len(Sweep(rows=(wrong,)).failures) == 2
    assert Sweep(rows=(wrong,), judged=frozenset({"1"})).failures == ()
    swept = Sweep(rows=(wrong,), judged=frozenset({"1"}), regressions=("it is slower",))
    assert swept.failures == ("it is slower",)


@pytest.mark.parametrize(
    ("fields", "max_drop", "text"),
    [
        ({"value": 0.9, "reference": 0.98, "drop": 0.08}, 0.08, ""),
        ({"value": 0.9, "reference": 0.98, "drop": 0.08}, None, ""),
        (
            {"value": 0.9, "reference": 0.98, "drop": 0.08},
            0.0,
            "accuracy is 0.9, and 0.98 in PyTorch: a drop of 0.08 on 50 items, above 0",
        ),
        ({"value": 0.9}, None, ""),
        ({"value": 0.9}, 0.1, "accuracy has no finite value for PyTorch, on 50 items"),
        ({}, 0.1, "accuracy has no finite value for the artifact, on 50 items"),
        ({"error": "the engine crashed"}, None, "accuracy: the engine crashed"),
    ],
)
def test_drops(fields: dict[str, Any], max_drop: float | None, text: str) -> None:
    swept = Sweep(rows=(row(metrics=(metric(**fields),), max_drop=max_drop),))
    assert swept.drops == ((f"'net0.py:build on ncnn': {text}",) if text else ())


def test_rows_are_grouped_by_host_in_the_order_of_the_first_row() -> None:
    rows = [row(0, host="b"), row(1, host="a"), row(2, host="b"), row(3)]
    hosts = Sweep(rows=tuple(rows)).hosts
    assert [(host, [each.key for each in found]) for host, found in hosts.items()] == [
        ("b", ["0", "2"]),
        ("a", ["1"]),
        ("", ["3"]),
    ]


def test_the_text_of_a_sweep() -> None:
    call = eb.Receipt(engine="ncnn 1", device="cpu")
    rows = (
        row(1, host="ann", machine=MACHINE, size=2048, seconds=1.5, receipt=call),
        row(2, "failed", host="ann", machine=MACHINE, reason="it raised", hint="look"),
        row(3, "failed", host="ann", machine=MACHINE, reason="it raised", hint="look"),
        row(
            4,
            host="ann",
            machine=MACHINE,
            speed=BenchmarkRow(name="a", backend="ncnn", batch=1, threads=1, failure="it crashed"),
        ),
    )
    assert str(Sweep(rows=rows, notes=("busy",))) == (
        "machine  ann (Xeon, 8 cores)\n"
        "MODEL          BACKEND  VERDICT   MAX ERROR     SIZE  DEPLOY\n"
        "net1.py:build  ncnn     verified          -  2.0 KiB  1.50 s\n"
        "net2.py:build  ncnn     failed            -        -       -\n"
        "net3.py:build  ncnn     failed            -        -       -\n"
        "net4.py:build  ncnn     verified          -        -       -\n"
        "\n"
        "net2.py:build on ncnn and 1 more  it raised\n"
        "                                  hint: look\n"
        "net4.py:build on ncnn             its speed could not be measured: it crashed\n"
        "note                              busy"
    )
    assert repr(Sweep(rows=rows)) == "<Sweep of 4 cells, 2 failures>"


def test_equal_notes_are_counted_and_at_most_eight_are_printed() -> None:
    rows = [row(n, notes=("shared", f"own {n}")) for n in range(10)]
    lines = str(Sweep(rows=tuple(rows))).splitlines()
    assert lines[-9] == "note  shared (10 cells)"
    notes = [line.strip() for line in lines[-8:]]
    assert notes == [*(f"own {n}" for n in range(7)), "3 more notes are in the rows"]


def test_a_sweep_without_rows_prints_nothing() -> None:
    assert str(Sweep()).strip() == ""
    assert Sweep().failures == ()


rows_of = st.builds(
    row,
    st.integers(0, 6),
    st.sampled_from(["verified", "mismatched", "failed", "lost"]),
    fault=st.sampled_from(["", "", "crashed", "disk"]),
    host=st.sampled_from(["", "ann"]),
    seconds=st.floats(0, 1e6),
    params=st.dictionaries(st.sampled_from("ab"), st.integers() | st.text("xyz") | st.booleans()),
    notes=st.lists(st.text("xyz"), max_size=2).map(tuple),
)


@given(st.lists(st.tuples(st.lists(rows_of, max_size=3), st.booleans()), max_size=4))
def test_resume_neither_loses_nor_repeats_a_cell(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[list[SweepRow], bool]]
) -> None:
    """However often a sweep is killed: each cell keeps its first row without a fault."""
    path = tmp_path_factory.mktemp("rows") / ROWS_FILE
    kept: dict[str, SweepRow] = {}
    for number, (rows, is_torn) in enumerate(runs):
        kept = {key: found for key, found in kept.items() if not found.fault}
        with RowsFile(path, resume=number > 0) as file:
            assert file.rows == kept
            for found in rows:
                file.append(found)
                kept.setdefault(found.key, found)
            assert file.rows == kept
        if is_torn:  # the writer is killed in the middle of a line
            with path.open("ab") as torn:
                torn.write(b'{"kind":"sweep row","schema":1,"key":"9')
    if kept:
        assert {found.key: found for found in read_rows(path)} == kept


@given(
    st.lists(rows_of, unique_by=lambda found: found.key, max_size=7).flatmap(
        lambda rows: st.tuples(st.just(rows), st.permutations(rows))
    )
)
def test_files_of_rows_merge_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, rows: tuple[list[SweepRow], list[SweepRow]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    for number, ordered in enumerate(rows):
        with RowsFile(folder / str(number) / ROWS_FILE, resume=False) as file:
            for found in ordered:
                file.append(found)
    if rows[0]:
        one, two = (read_rows(folder / str(number)) for number in (0, 1))
        assert sorted(one, key=lambda found: found.key) == sorted(two, key=lambda found: found.key)
        assert lab.report(folder / "0").sweeps[0].wrong == tuple(
            found
            for found in lab.report(folder / "1").sweeps[0].rows
            if found in lab.report(folder / "0").sweeps[0].wrong
        )


OLD_ROW = (
    b'{"kind":"sweep row","schema":1,"backend":"loopback","precision":"","verdict":"verified",'
    b'"artifact":"/out/artifacts/net.py-build-on-loopback-1","size":12,"seconds":0.5,"key":"1",'
    b'"model":"net.py:build","host":"ann","versions":{"torch":"2.13"},"files":"ba13","digest":"77",'
    b'"of_a_later_version":3}\n'
)


def test_rows_of_an_earlier_release_are_read(tmp_path: Any) -> None:
    path = tmp_path / ROWS_FILE
    path.write_bytes(OLD_ROW)
    (found,) = read_rows(path)
    assert (found.key, found.verdict, found.size, found.versions) == (
        *("1", "verified", 12),
        {"torch": "2.13"},
    )
    with RowsFile(path, resume=True) as file:
        assert list(file.rows) == ["1"]
    assert path.read_bytes() == OLD_ROW


def test_every_field_survives_the_file(tmp_path: Any) -> None:
    full = row(
        *(1, "lost"),
        fault="backend",
        reason="on ann: it is not installed",
        hint="pip install it",
        host="ann",
        machine=MACHINE,
        versions={"torch": "2.13"},
        environment=failed(Tier.IMPORT, "ncnn", found="missing", fix="pip install ncnn"),
        receipt=eb.Receipt(engine="ncnn 1", device="cpu"),
        files="1f",
        digest="2e",
        attempts=2,
        metrics=(metric(value=0.5),),
        max_drop=0.1,
        params={"threads": [1, 2], "deep": {"a": None}},
    )
    journal = Journal(tmp_path / ROWS_FILE, ROW_KIND)
    journal.append(full)
    assert read_rows(tmp_path) == (full,)


@pytest.mark.parametrize(
    ("precision", "params", "label"),
    [
        ("", {}, "net.py:build on ncnn"),
        ("fp16", {}, "net.py:build on ncnn fp16"),
        ("", {"threads": 2, "device": "cpu"}, "net.py:build on ncnn threads=2 device=cpu"),
        ("fp16", {"layers": ["a", "b"]}, "net.py:build on ncnn fp16 layers=a,b"),
    ],
)
def test_labels(precision: str, params: dict[str, Any], label: str) -> None:
    assert format_label("net.py:build", "ncnn", precision, params) == label
    cell = lab.Cell(model="net.py:build", backend="ncnn", precision=precision, params=params)
    assert SweepRow.of(cell, "lost").label == cell.label == label
