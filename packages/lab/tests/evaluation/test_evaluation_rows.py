"""The table and the failures of an evaluation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from enginebay.authors.sources import DataRecord
from enginebay_lab.evaluation.evaluation_rows import Evaluation, EvaluationRow, WorstItem
from enginebay_lab.evaluation.guarded_metric import GuardedMetric
from enginebay_lab.evaluation.metric_sources import find_metrics


def row(**fields: Any) -> EvaluationRow:
    known: dict[str, Any] = {"artifact": "fp32", "backend": "ncnn", "metric": "accuracy"}
    return EvaluationRow(**{**known, "count": 50, **fields})


def evaluation(*rows: EvaluationRow, **fields: Any) -> Evaluation:
    return Evaluation(rows=rows, data=DataRecord(source="data.npz", count=50), **fields)


def test_the_table_of_an_evaluation() -> None:
    worst = (WorstItem(7, None), WorstItem(3, 0.25), WorstItem(9, 1e-7), WorstItem(1, 1e-8))
    found = evaluation(
        row(value=0.9, reference=0.98, drop=0.08, agreement=0.5, worst=worst),
        row(metric="cosine", value=1 / 3, reference=1.0, drop=2 / 3),
        row(artifact="int8", error="the engine crashed"),
        reference="the PyTorch model",
    )
    lines = [line.rstrip() for line in str(found).splitlines()]
    shown = "7 (not a number), 3 (0.25), 9 (1e-07)"
    assert lines == [
        "ARTIFACT  METRIC       VALUE  PYTORCH      DROP  ITEMS  AGREEMENT  WORST ITEMS",
        f"fp32      accuracy       0.9     0.98      0.08     50     50.00%  {shown}",
        "fp32      cosine    0.333333        1  0.666667     50          -  -",
        "int8      accuracy         -        -         -     50          -  -",
    ]


def test_the_precision_is_shown_if_it_is_not_the_requested_one_or_rows_differ() -> None:
    def table(*precisions: str) -> list[str]:
        rows = [row(artifact="net", precision=name) for name in precisions]
        return str(evaluation(*rows)).splitlines()[: len(rows) + 1]

    header, fallen = table("fp16 → fp32")
    assert header.startswith("ARTIFACT  PRECISION    METRIC")
    assert fallen.startswith("net       fp16 → fp32  accuracy")
    assert [line.split()[1] for line in table("fp32", "int8")] == ["PRECISION", "fp32", "int8"]
    assert table("fp32", "fp32")[0].startswith("ARTIFACT  METRIC")


def test_without_a_model_a_note_says_how_to_compare() -> None:
    text = str(evaluation(row(value=0.9)))
    assert text.endswith(
        "note  metrics are not compared with PyTorch's; to compare, add --model MODEL"
    )


def test_numbered_targets_are_named() -> None:
    record = DataRecord(source="images", count=2, targets="the sorted names of the folders")
    found = Evaluation(rows=(row(value=1.0),), data=record, reference="the PyTorch model")
    assert str(found).endswith("note  the targets are numbered by the sorted names of the folders")


def test_the_document_has_every_row() -> None:
    found = evaluation(row(value=0.5, worst=(WorstItem(1, 0.5),)), command="make")
    document = found.to_dict()
    assert document["kind"] == "evaluation"
    assert document["rows"][0]["worst"] == [{"item": 1, "error": 0.5}]
    assert msgspec.convert(document, Evaluation) == found


@pytest.mark.parametrize(
    ("fields", "max_drop", "text"),
    [
        ({"value": 0.9, "reference": 0.9, "drop": 0.0}, 0.0, ""),
        ({"value": 0.95, "reference": 0.9, "drop": -0.05}, 0.0, ""),
        (
            {"value": 0.95, "reference": 0.9, "drop": -0.05},
            -0.1,
            "accuracy is 0.95, and 0.9 in PyTorch: a drop of -0.05 on 50 items, above -0.1",
        ),
        (
            {"value": 1e-9, "reference": 1e9, "drop": 1e9},
            1.0,
            "accuracy is 1e-09, and 1e+09 in PyTorch: a drop of 1e+09 on 50 items, above 1",
        ),
        ({"reference": 0.9}, 0.1, "accuracy has no finite value for the artifact, on 50 items"),
        ({"value": 0.9}, 0.1, "accuracy has no finite value for PyTorch, on 50 items"),
    ],
)
def test_why_a_row_fails(fields: dict[str, Any], max_drop: float, text: str) -> None:
    assert row(**fields).failure(max_drop) == (f"'fp32': {text}" if text else "")
    assert row(**fields).failure() == ""


def test_an_error_fails_without_a_limit_too() -> None:
    lost = row(error="the engine crashed", value=None)
    assert lost.failure() == lost.failure(9.0) == "'fp32': accuracy: the engine crashed"
    assert evaluation(row(value=1.0), lost).failures() == ["'fp32': accuracy: the engine crashed"]


class Measure:
    """A metric whose value is set by the test."""

    higher_is_better: bool | None = True

    def __init__(self, better: bool | None = True) -> None:
        self.higher_is_better = better

    def update(self, outputs: object, target: object) -> None: ...

    def compute(self) -> float:
        return 0.0

    def reset(self) -> None: ...


def drop(better: bool | None, value: float | None, reference: float | None) -> float | None:
    (source,) = find_metrics([Measure(better)])
    return GuardedMetric(source, "data").drop(value, reference)


finite = st.floats(-1e6, 1e6)


@given(finite, finite)
def test_drops_of_the_three_kinds_of_metrics(value: float, reference: float) -> None:
    lower, higher, either = (drop(better, value, reference) for better in (False, True, None))
    assert lower is not None
    assert higher is not None
    assert either is not None
    assert lower == -higher
    assert either == abs(higher) == drop(None, reference, value)


@pytest.mark.parametrize("better", [True, False, None])
def test_without_a_value_there_is_no_drop(better: bool | None) -> None:
    assert drop(better, None, 1.0) is drop(better, 1.0, None) is drop(better, None, None) is None


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        (0.5, 0.5),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        (True, 1.0),
    ],
)
def test_values_that_are_not_finite_are_none(returned: Any, value: float | None) -> None:
    metric = Measure()
    metric.compute = lambda: returned  # type: ignore[method-assign]
    (source,) = find_metrics([metric])
    assert GuardedMetric(source, "data").value() == value


def test_an_evaluation_has_a_short_representation() -> None:
    assert repr(evaluation(row())) == "<Evaluation on data.npz, rows: 1>"
