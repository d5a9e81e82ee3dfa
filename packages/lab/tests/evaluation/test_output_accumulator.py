"""Metrics, agreement and worst items, over all items and in parts that are merged."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from enginebay.errors import InputError
from enginebay_lab.evaluation.evaluation_rows import WorstItem
from enginebay_lab.evaluation.guarded_metric import MetricError
from enginebay_lab.evaluation.metric_sources import find_metrics
from enginebay_lab.evaluation.metric_state import pack_state, unpack_state
from enginebay_lab.evaluation.output_accumulator import MAX_WORST_ITEMS, OutputAccumulator

COUNT = 30


def item(number: int, target: object = None) -> Any:
    """An item of a data set; the accumulator reads only its number and its target."""
    return type("Item", (), {"number": number, "target": target, "inputs": {}})()


def scores(seed: int, *, integers: bool = False) -> list[dict[str, Any]]:
    """Outputs of 30 items; integers have sums without rounding."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-9, 9, (COUNT, 1, 3)) if integers else rng.normal(size=(COUNT, 1, 3))
    return [{"y": each.astype(np.float32)} for each in values]


def accumulator(*metrics: str, record_errors: bool = False) -> OutputAccumulator:
    return OutputAccumulator(find_metrics(list(metrics)), "'data'", record_errors=record_errors)


def add_range(found: OutputAccumulator, start: int, stop: int, *, integers: bool = False) -> None:
    items = [item(number, np.array([number % 3])) for number in range(start, stop)]
    outputs, expected = scores(1, integers=integers), scores(2, integers=integers)
    found.add(items, outputs[start:stop], expected[start:stop])


@settings(max_examples=30)
@given(st.sets(st.integers(0, COUNT), max_size=6))
def test_parts_merged_in_order_are_the_whole(cuts: set[int]) -> None:
    metrics = ("accuracy", "top-2", "cosine")
    whole = accumulator(*metrics)
    add_range(whole, 0, COUNT)
    total = accumulator(*metrics)
    for start, stop in pairwise(sorted({0, COUNT, *cuts})):
        part = accumulator(*metrics)
        add_range(part, start, stop)
        # As from a worker.
        state = msgspec.structs.replace(part.state, metrics=pack_state(part.state.metrics))
        sent = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=type(state))
        total.merge(msgspec.structs.replace(sent, metrics=unpack_state(sent.metrics)))
    assert (total.count, total.agreement) == (COUNT, whole.agreement)
    assert total.worst_items == whole.worst_items
    assert total.metric_value("accuracy") == whole.metric_value("accuracy")
    assert total.metric_value("top-2") == whole.metric_value("top-2")
    assert total.metric_value("cosine") == pytest.approx(whole.metric_value("cosine"), rel=1e-12)


@settings(max_examples=20)
@given(st.permutations([(0, 7), (7, 8), (8, 20), (20, 30)]))
def test_counts_and_worst_items_do_not_depend_on_the_order_of_parts(
    parts: list[tuple[int, int]],
) -> None:
    whole, total = accumulator("accuracy"), accumulator("accuracy")
    add_range(whole, 0, COUNT, integers=True)
    for start, stop in parts:
        part = accumulator("accuracy")
        add_range(part, start, stop, integers=True)
        total.merge(part.state)
    assert total.state == whole.state


def test_an_empty_part_changes_nothing() -> None:
    found = accumulator("accuracy", "cosine")
    add_range(found, 0, 9)
    before = found.state
    found.merge(accumulator("accuracy", "cosine").state)
    assert found.state == before


def test_reset_removes_all_results() -> None:
    found = accumulator("accuracy", "cosine")
    empty = found.state
    add_range(found, 0, 9)
    assert found.state != empty
    found.reset()
    assert found.state == empty


def test_the_state_does_not_change_with_later_items() -> None:
    found = accumulator("accuracy", "cosine")
    add_range(found, 0, 9)
    before = found.state
    copy = msgspec.msgpack.encode(pack_state(msgspec.structs.asdict(before)))
    add_range(found, 9, 20)
    assert msgspec.msgpack.encode(pack_state(msgspec.structs.asdict(before))) == copy


def test_the_worst_items_are_sorted_and_at_most_five() -> None:
    found = accumulator("cosine")
    distances = [0.0, 3.0, 1.0, math.nan, 2.0, 1.0, 0.5, 4.0]
    expected = [{"y": np.array([1.0])} for _ in distances]
    outputs = [{"y": np.array([1.0 + distance])} for distance in distances]
    found.add([item(number) for number in range(8)], outputs, expected)
    assert len(found.worst_items) == MAX_WORST_ITEMS
    assert found.worst_items == (
        WorstItem(3, None),  # NaN is farther than any number
        WorstItem(7, 4.0),
        WorstItem(1, 3.0),
        WorstItem(4, 2.0),
        WorstItem(2, 1.0),  # of equal distances the first item
    )


def test_equal_outputs_are_no_worst_items() -> None:
    found = accumulator("cosine")
    found.add([item(0)], scores(1)[:1], scores(1)[:1])
    assert found.worst_items == ()
    assert found.agreement == 1.0


def test_without_a_model_there_is_no_agreement() -> None:
    found = accumulator("accuracy")
    found.add([item(0, np.array([1]))], scores(1)[:1])
    assert (found.agreement, found.worst_items) == (None, ())


def test_a_missing_target_names_the_item_and_a_metric_without_targets() -> None:
    found = accumulator("accuracy")
    with pytest.raises(InputError) as caught:
        found.add([item(4)], scores(1)[:1])
    assert str(caught.value) == "item 4 of 'data' has no target, which metric 'accuracy' requires"
    assert caught.value.hint == (
        "add targets (in an .npz file: the key 'target'), or use the metric 'cosine'"
    )


def test_a_recorded_error_ends_only_its_metric() -> None:
    found = accumulator("accuracy", "cosine", record_errors=True)
    found.add([item(0, np.array([9]))], scores(1)[:1], scores(1)[:1])
    found.add([item(1, np.array([1]))], scores(1)[1:2], scores(1)[1:2])
    assert found.errors == {
        "accuracy": "metric 'accuracy' on item 0 of 'data': the target 9 is not a class index: the "
        "output has 3 classes"
    }
    assert found.metric_value("accuracy") is None
    assert found.metric_value("cosine") == pytest.approx(1.0)
    assert list(found.state.metrics) == ["cosine"]


def test_the_first_error_of_merged_parts_is_kept() -> None:
    parts = []
    for number, target in enumerate((8, 9)):
        part = accumulator("accuracy", record_errors=True)
        part.add([item(number, np.array([target]))], scores(1)[:1], scores(1)[:1])
        parts.append(part.state)
    total = accumulator("accuracy", record_errors=True)
    for state in parts:
        total.merge(state)
    assert total.errors["accuracy"].startswith(
        "metric 'accuracy' on item 0 of 'data': the target 8"
    )
    assert total.count == 2


class Raising:
    """A metric that raises when its value is computed."""

    def update(self, outputs: object, target: object) -> None: ...

    def reset(self) -> None: ...

    def compute(self) -> float:
        raise ZeroDivisionError("division by zero")


def test_a_value_that_raises_is_an_error_and_no_value() -> None:
    found = OutputAccumulator(find_metrics([Raising()]), "'data'")
    assert found.metric_value("Raising") is None
    assert found.errors == {
        "Raising": "metric 'Raising' raised ZeroDivisionError: division by zero"
    }


class Exits(Raising):
    """A metric that ends Python."""

    def update(self, outputs: object, target: object) -> None:
        raise SystemExit(3)


def test_a_metric_cannot_end_the_evaluation() -> None:
    found = OutputAccumulator(find_metrics([Exits]), "'data'")
    with pytest.raises(MetricError) as caught:
        found.add([item(2, 1)], scores(1)[:1])
    assert str(caught.value) == "metric 'Exits' raised SystemExit on item 2 of 'data': 3"
