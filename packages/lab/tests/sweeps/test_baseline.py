"""What got worse since an earlier sweep."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from enginebay.authors import Latency
from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
from enginebay_lab.measurement.benchmark_rows import Agreement, BenchmarkRow
from enginebay_lab.measurement.machine import Machine
from enginebay_lab.sweeps.baseline import VERDICTS, find_judged_cells, find_regressions
from enginebay_lab.sweeps.sweep_rows import Sweep, SweepRow

MACHINE = Machine(processor="Xeon", cores=8, system="Linux", python="3.12", enginebay="0.1")
change = msgspec.structs.replace


def accuracy(
    value: float | None, *, reference: float | None = 0.98, **fields: Any
) -> EvaluationRow:
    drop = None if value is None or reference is None else reference - value
    named: dict[str, Any] = {"artifact": "a", "backend": "b", "metric": "accuracy", "count": 500}
    return EvaluationRow(value=value, reference=reference, drop=drop, **{**named, **fields})


def speed(median: float, width: float = 0.01, **fields: Any) -> BenchmarkRow:
    low, high = median * (1 - width), median * (1 + width)
    call = Latency(
        runs=100, median=median, low=low, high=high, mean=median, stdev=0, p90=high, p99=None,
        min=low, max=high,
    )  # fmt: skip
    return BenchmarkRow(name="a", backend="b", batch=1, threads=1, call=call, **fields)


ROW = SweepRow(
    key="1",
    model="net.py:build",
    backend="openvino",
    precision="fp16",
    verdict="verified",
    host="ann",
    machine=MACHINE,
    versions={"openvino": "2026.3", "torch": "2.13"},
    metrics=(accuracy(0.97),),
    speed=speed(1e-3),
)
LABEL = "net.py:build on openvino fp16"


def compare_rows(row: SweepRow, before: SweepRow = ROW) -> tuple[str, ...]:
    return find_regressions([row], [before])[0]


def test_equal_rows_are_not_regressions() -> None:
    assert find_regressions([ROW], [ROW]) == ((), ())
    others = [change(ROW, key=str(n), params={"threads": n}) for n in range(9)]
    assert find_regressions(others, others[::-1]) == ((), ())
    assert find_regressions([], []) == ((), ())


def test_a_planted_mismatch() -> None:
    versions = {"openvino": "2026.4", "torch": "2.13"}
    worse = change(
        ROW, verdict="mismatched", reason="output 'y' is off by 0.2", versions=versions, host="bob"
    )
    assert compare_rows(worse) == (
        (
            f"{LABEL}: mismatched (verified in the baseline): output 'y' is off by 0.2; "
            "openvino 2026.4 instead of 2026.3 (bob, ann in the baseline)"
        ),
    )
    assert compare_rows(ROW, worse) == ()


VERDICT = st.sampled_from([*VERDICTS, "lost"])


@given(now=VERDICT, then=VERDICT)
def test_the_order_of_verdicts(now: str, then: str) -> None:
    bare = change(ROW, metrics=(), speed=None)
    row, before = change(bare, verdict=now), change(bare, verdict=then)
    worse, notes = find_regressions([row], [before])
    if then == "lost":
        assert worse == ()
        assert notes == ("cells without a result in the baseline, so not compared: 1",)
    elif now == "lost":
        assert worse == (f"{LABEL}: lost ({then} in the baseline): ",)
    else:
        order = ("verified", "unverified", "mismatched", "crashed", "failed")
        assert bool(worse) == (order.index(now) > order.index(then))
        assert not (worse and find_regressions([before], [row])[0])


@given(verdicts=st.lists(st.sampled_from(VERDICTS), min_size=3, max_size=3))
def test_the_order_of_verdicts_is_transitive(verdicts: list[str]) -> None:
    first, second, third = (change(ROW, verdict=each, metrics=(), speed=None) for each in verdicts)
    if not compare_rows(second, first) and not compare_rows(third, second):
        assert compare_rows(third, first) == ()


def test_a_lost_cell_is_a_regression_with_its_reason() -> None:
    lost = change(ROW, verdict="lost", fault="worker died", reason="worker died twice on bob")
    message = f"{LABEL}: lost (verified in the baseline): worker died twice on bob"
    assert compare_rows(lost) == (message,)
    before = change(ROW, machine=change(MACHINE, environment={"OMP_NUM_THREADS": "1"}))
    assert compare_rows(change(lost, machine=None, versions={}), before) == (message,)


def test_cells_that_are_gone_and_new() -> None:
    new = [change(ROW, key=f"n{n}", model=f"n{n}.py") for n in range(5)]
    assert find_regressions(new, [ROW]) == (
        (f"{LABEL}: not in this sweep (verified in the baseline)",),
        (
            (
                "cells that are not in the baseline: n0.py on openvino fp16, "
                "n1.py on openvino fp16, n2.py on openvino fp16, and 2 more"
            ),
        ),
    )


@pytest.mark.parametrize(
    ("now", "then", "same"),
    [
        ("net.py:build", "net.py:build", True),
        ("models/net.py:build", "/ci/work/models/net.py:build", True),
        ("/home/ann/net.py:build", "/ci/work/net.py:build", True),
        ("a/net.py:build", "b/net.py:build", False),
        ("a/net.py:build", "/ci/b/net.py:build", False),
        ("net.py:build", "net.py:other", False),
        ("timm:resnet18", "timm:resnet34", False),
        ("transformers:one/model", "transformers:two/model", False),
    ],
)
def test_cells_are_paired_by_model_and_engine(now: str, then: str, *, same: bool) -> None:
    row, before = change(ROW, key="n", model=now), change(ROW, key="t", model=then)
    for one, other in ((row, before), (before, row)):
        worse, notes = find_regressions([one], [other])
        assert (not worse and not notes) == same
    changed = change(before, params={"threads": 2})
    assert len(find_regressions([row], [changed])[0]) == 1


def test_rows_with_two_matches_are_not_paired() -> None:
    ours = [change(ROW, key="n", model="/home/ann/net.py")]
    theirs = [change(ROW, key=part, model=f"/ci/{part}/net.py") for part in "ab"]
    worse, notes = find_regressions(ours, theirs)
    assert len(worse) == 2
    assert notes == ("cells that are not in the baseline: /home/ann/net.py on openvino fp16",)


@pytest.mark.parametrize(
    ("now", "then", "max_drop", "is_worse"),
    [
        (0.97, 0.97, None, False),
        (0.9602, 0.97, None, False),  # 1 % of PyTorch's value is 0.0098
        (0.9601, 0.97, None, True),
        (0.99, 0.97, None, False),
        (0.97, 0.98, 0.01, False),
        (0.96, 0.97, 0.01, True),
        (0.9699, 0.97, 0.0, True),
        (0.95, 0.97, 0.1, False),
        (0.92, 0.935, 0.05, True),  # a small step, and beyond what passes
        (0.92, 0.925, 0.05, False),  # it was beyond before
    ],
)
def test_a_metric_that_dropped(
    now: float, then: float, max_drop: float | None, *, is_worse: bool
) -> None:
    row = change(ROW, metrics=(accuracy(now),), max_drop=max_drop)
    before = change(ROW, metrics=(accuracy(then),), max_drop=max_drop)
    assert bool(compare_rows(row, before)) == is_worse


def test_messages_about_metrics() -> None:
    key = change(ROW, key="2")
    for row, before, sentences, notes in [
        (
            change(ROW, metrics=(accuracy(0.9),)),
            ROW,
            (
                (
                    f"{LABEL}: accuracy 0.9 (0.98 in PyTorch), and 0.97 (0.98 in PyTorch) in "
                    "the baseline: worse by 0.07, allowed: 0.0098"
                ),
            ),
            (),
        ),
        (
            change(ROW, metrics=(accuracy(0.92),), max_drop=0.055),
            change(ROW, metrics=(accuracy(0.93),)),
            (
                (
                    f"{LABEL}: accuracy 0.92 (0.98 in PyTorch), and 0.93 (0.98 in PyTorch) in "
                    "the baseline: worse by 0.01, allowed: 0.055 below PyTorch"
                ),
            ),
            (),
        ),
        (
            change(ROW, metrics=(accuracy(None, error="the artifact crashed"),)),
            ROW,
            (f"{LABEL}: no accuracy (0.97 in the baseline): the artifact crashed",),
            (),
        ),
        (
            change(ROW, metrics=()),
            ROW,
            (f"{LABEL}: no accuracy (0.97 in the baseline)",),
            (),
        ),
        (
            change(key, metrics=()),
            ROW,
            (),
            ("metrics of the baseline that this sweep did not request: 1",),
        ),
        (ROW, change(ROW, metrics=(accuracy(None),)), (), ()),
        (
            change(ROW, metrics=(accuracy(0.5, count=9),)),
            ROW,
            (),
            ("metrics on a different number of items, so not compared: 1",),
        ),
        (
            change(ROW, metrics=(accuracy(0.5, reference=None),)),
            ROW,
            (),
            ("metrics without PyTorch's value, so not compared: 1",),
        ),
        (
            change(ROW, verdict="crashed", metrics=(), speed=None),
            change(ROW, verdict="crashed"),
            (),
            (),
        ),
    ]:
        assert find_regressions([row], [before]) == (sentences, notes)


def test_a_planted_slowdown() -> None:
    machine = change(MACHINE, environment={"OMP_NUM_THREADS": "1"}, load=6.0)
    slow = change(ROW, speed=speed(2e-3), machine=machine)
    assert compare_rows(slow) == (
        (
            f"{LABEL}: 2.00 ms (1.98 ms – 2.02 ms) per call, 1.00 ms (990 µs – "
            "1.01 ms) in the baseline: 2.00×; the machine was busy: a load of 6.0 on 8 cores; "
            "OMP_NUM_THREADS 1 instead of unset"
        ),
    )
    assert compare_rows(ROW, slow) == ()


def test_small_or_uncertain_slowdowns_pass() -> None:
    for row in [
        change(ROW, speed=speed(1.24e-3)),  # as much as two runs may differ by
        change(ROW, speed=speed(2e-3, agreement=agreement(0.7))),
        change(ROW, speed=speed(2e-3, width=0.6)),  # the intervals meet
        change(ROW, verdict="crashed", speed=None, metrics=()),
    ]:
        assert [each for each in compare_rows(row) if "per call" in each] == []


def agreement(apart: float) -> Agreement:
    return Agreement(agreed=False, apart=apart, wanted=0.02, windows=9, seconds=1.0)


def test_calls_whose_middle_halves_overlap_are_not_slower() -> None:
    before = change(ROW, speed=speed(1e-3, quantiles=tuple(1e-5 * n for n in range(50, 151))))
    slow = [change(ROW, speed=speed(2e-3, quantiles=(low,) * 101)) for low in (1.25e-3, 1.26e-3)]
    assert [len(compare_rows(row, before)) for row in slow] == [0, 1]


@pytest.mark.parametrize(
    "other",
    [
        {"host": "bob"},
        {"machine": change(MACHINE, processor="Ryzen")},
        {"machine": change(MACHINE, cores=4)},
        {"machine": None},
    ],
)
def test_figures_of_different_machines_are_not_compared(other: dict[str, Any]) -> None:
    slow = change(ROW, speed=speed(9e-3), **other)
    assert find_regressions([slow], [ROW]) == (
        (),
        ("cells measured on a different machine, so speed is not compared: 1",),
    )
    assert len(compare_rows(change(slow, machine=MACHINE, host=""))) == 1  # an unknown host


def test_a_missing_measurement_is_a_regression() -> None:
    message = f"{LABEL}: not measured (1.00 ms (990 µs – 1.01 ms) per call in the baseline)"
    assert compare_rows(change(ROW, speed=None)) == (message,)
    failed = change(speed(1.0), call=None, failure="it ran out of time")
    assert compare_rows(change(ROW, speed=failed)) == (f"{message}: it ran out of time",)
    assert find_regressions([change(ROW, speed=None, key="2")], [ROW]) == (
        (),
        ("cells whose speed this sweep did not request: 1",),
    )
    assert find_regressions([ROW], [change(ROW, speed=None)]) == ((), ())


def test_cells_of_the_baseline_fail_only_where_they_are_worse() -> None:
    failed = change(ROW, verdict="failed", reason="no operator")
    lost = change(ROW, key="2", verdict="lost", reason="it died")
    rows = (failed, lost)
    judged = find_judged_cells(rows, [failed, change(lost, precision="fp16")])
    assert Sweep(rows=rows, judged=judged).wrong == (lost,)
    assert Sweep(rows=rows).wrong == rows
    dropped = change(ROW, metrics=(change(ROW.metrics[0], drop=0.5),), max_drop=0.01)
    assert Sweep(rows=(dropped,)).drops
    assert not Sweep(rows=(dropped,), judged=frozenset({ROW.key})).drops
