"""The figures of an evaluation do not depend on the sizes of chunks and tasks."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import enginebay_lab as lab
from enginebay.authors.sources import Item
from enginebay.errors import EnginebayError
from enginebay_lab.evaluation.digests import ItemDigests
from enginebay_lab.evaluation.metric_sources import find_metrics
from enginebay_lab.evaluation.output_accumulator import OutputAccumulator
from enginebay_lab.evaluation.shards import SHARD_ITEMS, Shard
from enginebay_lab.executors.tasks import TaskFault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def random_arrays(shape: tuple[int, ...], seed: int) -> list[np.ndarray[Any, Any]]:
    """Return arrays whose sums depend on the order: their entries have any magnitude."""
    rng = np.random.default_rng(seed)
    exponents = rng.integers(-6, 7, (90, *shape))
    found = rng.normal(size=(90, *shape)) * 10.0**exponents
    return list(found.astype(np.float32))


def accumulate_items(cuts: set[int], shape: tuple[int, ...], *, transposed: bool) -> Any:
    """Return the state of an accumulator after 90 items in pieces."""
    targets, expected, found = (random_arrays(shape, seed) for seed in range(3))
    if transposed:
        expected = [np.asfortranarray(each) for each in expected]
    sources = find_metrics(["mean-absolute-error", "cosine"])
    accumulator = OutputAccumulator(sources, "data", record_errors=True)
    places = [0, *sorted(cuts), 90]
    for start, stop in pairwise(places):
        accumulator.add(
            [Item(n, {}, targets[n]) for n in range(start, stop)],
            [{"y": each} for each in found[start:stop]],
            [{"y": each} for each in expected[start:stop]],
        )
    return accumulator.state


@settings(max_examples=40, deadline=None)
@given(
    st.sets(st.integers(1, 89), max_size=12),
    st.sampled_from([(1,), (3,), (9,), (130,), (3, 5, 7), (1, 40, 30)]),
    st.booleans(),
)
def test_sums_do_not_depend_on_the_chunks(
    cuts: set[int], shape: tuple[int, ...], transposed: bool
) -> None:
    assert accumulate_items(cuts, shape, transposed=transposed) == accumulate_items(
        set(), shape, transposed=transposed
    )


def test_items_without_a_decision_do_not_change_the_agreement() -> None:
    scores, number = np.float32([[0.1, 0.9]]), np.float32([[0.5]])
    outputs = [{"y": each} for each in (scores, number, scores)]
    accumulator = OutputAccumulator(find_metrics("cosine"), "data")
    accumulator.add([Item(n, {}) for n in range(3)], outputs, outputs)
    assert (accumulator.state.agreed, accumulator.state.decided) == (2, 2)


def make_items(count: int) -> Iterator[Any]:
    """Yield items with random targets, and interrupt after ``count`` of them."""
    for x, target in zip(random_arrays((1, 4), 3) * 3, random_arrays((1, 3), 4) * 3, strict=True):
        if not count:
            raise KeyboardInterrupt
        yield {"x": x, "target": target}
        count -= 1


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_rows_do_not_depend_on_the_size_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(size: int) -> Any:
        for name in ("FIRST_CHUNK_ITEMS", "MAX_CHUNK_ITEMS"):
            monkeypatch.setattr(f"enginebay_lab.evaluation.item_reader.{name}", size)
        metrics = ["mean-absolute-error", "cosine"]
        return lab.evaluate(
            ["good", "bad"], lambda: make_items(-1), metrics, model="net.py:build"
        ).rows

    whole = rows(1024)
    assert whole[0].count == 270 > 4 * SHARD_ITEMS
    assert rows(7) == rows(SHARD_ITEMS) == whole


@pytest.mark.slow
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("stop", [40, 150])
def test_an_interrupted_run_ends_with_the_same_digits(
    stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginebay_lab.evaluation.checkpoints.CHECKPOINT_SECONDS", 0)
    for name in ("FIRST_CHUNK_ITEMS", "MAX_CHUNK_ITEMS"):
        monkeypatch.setattr(f"enginebay_lab.evaluation.item_reader.{name}", 10)
    metrics = ["mean-absolute-error", "cosine"]

    def rows(count: int, output: str) -> Any:
        return lab.evaluate(
            *(["good", "bad"], lambda: make_items(count), metrics),
            model="net.py:build",
            output=output,
            resume=True,
        ).rows

    with pytest.raises(KeyboardInterrupt):
        rows(stop, "rows.jsonl")
    assert rows(-1, "rows.jsonl") == rows(-1, "whole.jsonl")


FULL = """\
import torch, torchmetrics

class Full(torchmetrics.Metric):
    full_state_update = True
    higher_is_better = True

    def __init__(self):
        super().__init__()
        self.add_state("total", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, outputs, target):
        self.total += outputs.sum()

    def compute(self):
        return self.total
"""

OWN = """\
import time
import numpy as np

class Last:
    higher_is_better = None
    def __init__(self): self.reset()
    def reset(self): self.metric_state = {"seen": []}
    def update(self, outputs, target): self.metric_state["seen"].append(float(outputs.sum()))
    def merge_state(self, state): self.metric_state["seen"] += state["seen"]
    def compute(self): return self.metric_state["seen"][-1] + len(self.metric_state["seen"])

class Huge(Last):
    def update(self, outputs, target): self.metric_state["seen"].append(1 << 70)

class PerClass(Last):
    def reset(self): self.metric_state = {}
    def update(self, outputs, target): self.merge_state({int(outputs.argmax()): outputs.sum()})
    def merge_state(self, state):
        for key, value in state.items():
            self.metric_state[key] = np.float64(self.metric_state.get(key, 0)) + value
    def compute(self): return len(self.metric_state) + sum(self.metric_state.values())

class Slow(Last):
    def update(self, outputs, target):
        time.sleep(0.005)
        super().update(outputs, target)

class Alone(Last):
    def reset(self): self.seen = []
    def update(self, outputs, target): self.seen.append(float(outputs.sum()))
    def compute(self): return self.seen[-1] + len(self.seen)
    merge_state = property()
"""


def test_a_metric_with_and_without_merge_state_sees_all_items_in_order(here: Path) -> None:
    (here / "own.py").write_text(OWN)
    metrics = ["own.py:Last", "own.py:Alone"]
    last, alone = lab.evaluate("good", lambda: make_items(-1), metrics, model="net.py:build").rows
    assert (last.value, last.reference) == (alone.value, alone.reference)
    assert last.value is not None
    assert last.value > 260


@pytest.mark.slow
def test_slow_metrics_make_chunks_smaller(here: Path) -> None:
    (here / "own.py").write_text(OWN)
    seen: list[str] = []
    lab.evaluate(
        *("good", lambda: make_items(-1), "own.py:Slow"),
        watch=lambda step: seen.append(step.detail),
    )
    counts = [int(detail.split()[0]) for detail in seen if detail]
    assert max(later - before for before, later in pairwise(counts)) <= 64


def test_a_number_too_large_for_a_checkpoint_is_evaluated(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginebay_lab.evaluation.checkpoints.CHECKPOINT_SECONDS", 0)
    (here / "own.py").write_text(OWN)
    (row,) = lab.evaluate("good", lambda: make_items(-1), "own.py:Huge", output="rows.jsonl").rows
    assert row.value == float(1 << 70)


def test_a_state_of_numbers_of_numpy_by_class_is_resumed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginebay_lab.evaluation.checkpoints.CHECKPOINT_SECONDS", 0)
    (here / "own.py").write_text(OWN)

    def evaluate(count: int, **more: Any) -> Any:
        return lab.evaluate("good", lambda: make_items(count), "own.py:PerClass", **more).rows[0]

    with pytest.raises(KeyboardInterrupt):
        evaluate(150, output="rows.jsonl")
    assert len(list(here.glob("rows.jsonl.*.part"))) == 1
    assert evaluate(-1, output="rows.jsonl", resume=True).value == evaluate(-1).value


def test_a_metric_of_torchmetrics_that_cannot_be_merged_is_not_resumed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torchmetrics")
    monkeypatch.setattr("enginebay_lab.evaluation.checkpoints.CHECKPOINT_SECONDS", 0)
    (here / "full.py").write_text(FULL)
    options: Any = {"output": "rows.jsonl", "resume": True}
    with pytest.raises(KeyboardInterrupt):
        lab.evaluate("good", lambda: make_items(150), "full.py:Full", **options)
    assert not list(here.glob("*.part"))
    (row,) = lab.evaluate("good", lambda: make_items(-1), "full.py:Full", **options).rows
    assert row.error == ""
    assert row.count == 270


@pytest.mark.filterwarnings("ignore:.*will save all targets:UserWarning")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("MeanSquaredError", ""),
        ("SpearmanCorrCoef", ""),
        ("MulticlassF1Score(num_classes=3)", ""),
        ("PearsonCorrCoef", "torchmetrics does not merge its states"),
    ],
)
def test_which_metrics_of_torchmetrics_are_merged(name: str, reason: str) -> None:
    pytest.importorskip("torchmetrics")
    (source,) = find_metrics(f"torchmetrics:{name}")
    assert source.unmergeable == reason


def test_a_mean_of_means_is_not_merged() -> None:
    image = pytest.importorskip("torchmetrics.image")
    (source,) = find_metrics(image.PeakSignalNoiseRatio(data_range=1.0))
    assert (
        source.unmergeable
        == "the reduction of its state 'data_range' depends on how the items are split"
    )


@pytest.mark.filterwarnings("ignore:.*will save all targets:UserWarning")
def test_states_of_torchmetrics_are_merged_in_the_order_of_the_items() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchmetrics")
    (source,) = find_metrics("torchmetrics:SpearmanCorrCoef")
    total, part = source.build(), source.build()
    for number in range(3):
        part.update(np.float32([number, number + 1]), np.float32([number, -number]))
        total.merge_state(part.metric_state)
        part.reset()
    assert torch.cat(total.metric_state["preds"]).tolist() == [0, 1, 1, 2, 2, 3]


def test_a_shard_survives_messagepack() -> None:
    import msgspec

    accumulator = OutputAccumulator(find_metrics("mean-absolute-error"), "data")
    accumulator.add([Item(0, {}, np.ones(3))], [{"y": np.zeros(3)}])
    shard = Shard(
        start=64,
        items=ItemDigests(b"", b"12345678"),
        reference=None,
        artifacts={"one": accumulator.state},
        lost={"two": "it is gone"},
    )
    data = msgspec.msgpack.encode(shard.pack_metrics())
    assert msgspec.msgpack.decode(data, type=Shard).unpack_metrics() == shard
    assert shard.count == 1


@pytest.mark.parametrize("kind", ["os", "", "NotVerifiedError", "__name__", "InputError"])
def test_an_unknown_error_of_a_worker_becomes_an_enginebay_error(kind: str) -> None:
    found = TaskFault("raised", "it failed", "try again", kind).to_error()
    assert isinstance(found, EnginebayError)
    assert (str(found), found.hint) == ("it failed", "try again")
