"""Rows of two sweeps are paired by their cells: each row at most once, and in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from enginebay_lab.sweeps.row_pairs import pair_rows
from enginebay_lab.sweeps.sweep_rows import SweepRow


def row(key: str, model: str = "net.py:build", **fields: Any) -> SweepRow:
    known: dict[str, Any] = {"backend": "ncnn", "precision": "", "verdict": "verified", **fields}
    return SweepRow(key=key, model=model, **known)


models = st.sampled_from(
    ["net.py:build", "/a/net.py:build", "/b/net.py:build", "a/net.py:build", "other.py:build"]
)
sweeps = st.lists(
    st.builds(
        row,
        st.sampled_from("123456"),
        models,
        backend=st.sampled_from(["ncnn", "openvino"]),
        params=st.sampled_from([{}, {"threads": 1}]),
    ),
    unique_by=lambda found: found.key,
    max_size=6,
)


@settings(max_examples=100)
@given(sweeps, sweeps)
def test_pairs_are_the_same_in_both_directions(
    rows: list[SweepRow], baseline: list[SweepRow]
) -> None:
    there, back = pair_rows(rows, baseline), pair_rows(baseline, rows)
    keys = {(now.key, before.key) for now, before in there.same}
    assert keys == {(now.key, before.key) for before, now in back.same}
    assert {found.key for found in there.new} == {found.key for found in back.gone}
    assert {found.key for found in there.gone} == {found.key for found in back.new}


@settings(max_examples=100)
@given(sweeps, sweeps)
def test_each_row_is_in_one_place(rows: list[SweepRow], baseline: list[SweepRow]) -> None:
    pairs = pair_rows(rows, baseline)
    ours = [now.key for now, _ in pairs.same] + [found.key for found in pairs.new]
    theirs = [before.key for _, before in pairs.same] + [found.key for found in pairs.gone]
    assert sorted(ours) == sorted(found.key for found in rows)
    assert sorted(theirs) == sorted(found.key for found in baseline)
    assert all(now.backend == before.backend for now, before in pairs.same if now.key != before.key)
    order = [found.key for found in rows]
    assert [now.key for now, _ in pairs.same] == sorted(
        (now.key for now, _ in pairs.same), key=order.index
    )


@settings(max_examples=50)
@given(sweeps)
def test_a_sweep_is_paired_with_itself(rows: list[SweepRow]) -> None:
    pairs = pair_rows(rows, rows)
    assert pairs.same == [(found, found) for found in rows]
    assert (pairs.new, pairs.gone) == ([], [])


@pytest.mark.parametrize(
    ("now", "before", "same"),
    [
        (row("1"), row("2"), True),  # only the time limit differs
        (row("1", params={"a": 1, "b": 2}), row("2", params={"b": 2, "a": 1}), True),
        (row("1", params={"a": 1}), row("2", params={"a": 2}), False),
        (row("1", precision="fp16"), row("2"), False),
        (row("1", "/home/x/net.py:build"), row("2", "net.py:build"), True),
        (row("1", "/home/x/nets/net.py:build"), row("2", "nets/net.py:build"), True),
        (row("1", "/home/x/nets/net.py:build"), row("2", "mine/net.py:build"), False),
        (row("1", "a/net.py:build"), row("2", "b/net.py:build"), False),
        (row("1", "/a/net.py:build"), row("2", "/b/net.py:build"), True),
        (row("1", "net.py:build"), row("2", "net.py:other"), False),
    ],
    ids=str,
)
def test_rows_of_the_same_model_and_engine(now: SweepRow, before: SweepRow, same: bool) -> None:
    assert bool(pair_rows([now], [before]).same) == same
    assert bool(pair_rows([before], [now]).same) == same
