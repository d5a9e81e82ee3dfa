"""What is measured, and when its reader is warned."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import enginebay as eb
from enginebay.errors import InputError, UsageError
from enginebay.operations.benchmark_artifact import FEWEST, _notes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def artifact(tmp_path: Path, loopback: str) -> eb.Artifact:
    import torch

    return eb.deploy(
        torch.nn.Linear(4, 3),
        torch.ones(2, 4),
        backend=loopback,
        work_dir=tmp_path / "linear",
        exporter="torchscript",
    ).artifact


def test_a_call_holds_the_engine_and_more(artifact: eb.Artifact) -> None:
    found = eb.benchmark(artifact, seconds=0.3)
    assert found.call.runs >= FEWEST
    assert found.engine.runs >= FEWEST
    assert 0 < found.engine.min < found.call.median
    assert found.throughput == pytest.approx(1 / found.call.mean)
    assert found.load > 0
    assert found.first > 0
    assert found.receipt.engine.startswith("onnx.reference")


def test_the_fewest_calls_are_made_however_long_they_take(artifact: eb.Artifact) -> None:
    found = eb.benchmark(artifact, seconds=1e-9)
    assert found.call.runs == FEWEST


def test_inputs_may_be_given(artifact: eb.Artifact) -> None:
    import numpy as np

    with pytest.raises(InputError, match="input"):
        eb.benchmark(artifact, {"input": np.ones((2, 5), np.float32)}, seconds=0.01)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_no_time_is_refused_before_anything_is_loaded(seconds: float, tmp_path: Path) -> None:
    start = time.perf_counter()
    with pytest.raises(UsageError, match=r"seconds is .*, wanted a positive number"):
        eb.benchmark(tmp_path / "nothing", seconds=seconds)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([1.0] * 20, None),
        ([1.0] * 10 + [1.04] * 10, None),
        ([1.0] * 10 + [1.2] * 10, "the second half was 20% slower than the first"),
        ([1.2] * 10 + [1.0] * 10, "the second half was 17% faster than the first"),
        ([1.0] * 19 + [50.0], "the mean is 3.5 times the median"),
    ],
)
def test_figures_that_will_not_come_again_are_said(calls: list[float], words: str | None) -> None:
    notes = list(_notes(calls))
    if words is None:
        assert notes == []
    else:
        (note,) = notes
        assert note.startswith(words)
        assert note.endswith(": measure longer, or with nothing else running")
