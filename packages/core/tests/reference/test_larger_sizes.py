"""Open sizes without a limit are tried up to ten times the example's; the verdict reports them."""

from __future__ import annotations

import json
import time
from itertools import count
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.cli import main
from enginebay.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("loopback")

X = torch.linspace(-1, 2, 12).view(3, 4)
OPEN = {"x": {0: "batch", 1: "length"}}


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)


class Model(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def limit_length(length: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * torch.arange(length).index_select(0, torch.arange(x.shape[1]))

    return function


def deploy(
    function: Callable[[torch.Tensor], torch.Tensor],
    folder: Path,
    *,
    engine: Callable[[torch.Tensor], torch.Tensor] | None = None,
    dynamic: object = OPEN,
    **options: object,
) -> eb.Verification:
    rewriters = eb.RewriterSet()
    if engine is not None:
        rewriters.function(f"{__name__}.Model.forward")(lambda ctx, self, x: engine(x))
    return eb.deploy(
        Model(function),
        X,
        work_dir=folder / "out",
        dynamic=dynamic,  # type: ignore[arg-type]  # of several forms
        export=eb.ExportOptions(rewriters=[rewriters]),
        verify=eb.VerifyOptions(allow_mismatch=True, **options),  # type: ignore[arg-type]  # by name
    ).verification


@pytest.mark.parametrize("axis", [0, 1])
def test_errors_beyond_twice_the_example_size_fail_the_verdict(axis: int, tmp_path: Path) -> None:
    def engine(x: torch.Tensor) -> torch.Tensor:
        correct = torch.arange(x.shape[axis]) < 2 * X.shape[axis] + 1
        return x * 2 * (correct if axis else correct[:, None])

    assert deploy(double, tmp_path, engine=engine).verdict == "mismatched"


def test_the_verdict_reports_the_largest_tried_sizes(tmp_path: Path, capsys) -> None:
    verification = deploy(double, tmp_path)
    assert verification.verdict == "verified"
    assert verification.extent().endswith(" samples, 'batch' up to 30, 'length' up to 40")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    for name, largest, axis in (("batch", 30, 0), ("length", 40, 1)):
        found = manifest["verification"]["basis"]["range"]["sizes"][name]
        assert (found["limited"], found["axes"]) == (False, [["x", axis]])
        assert {*range(1, 17), largest} <= set(found["sizes"])
        assert found["sizes"][-1] == largest
    for reference in (None, Model(double)):
        verified = eb.verify(tmp_path / "out", reference=reference)
        assert "'batch' up to 30" in verified.extent()
    for command in ("inspect", "verify"):
        main([command, str(tmp_path / "out")])
        assert "'batch' up to 30" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("length", "refused", "tried"), [(12, 20, 12), (31, 40, 20)])
def test_a_size_at_which_the_model_fails_is_reported(
    length: int, refused: int, tried: int, tmp_path: Path
) -> None:
    text = f"the model itself fails if 'length' is {refused} and the other sizes are the example's"
    with pytest.warns(eb.VerdictWarning, match=text):
        verification = deploy(limit_length(length), tmp_path)
    assert verification.verdict == "verified"
    assert verification.extent().endswith(f"'length' up to {tried}")


@pytest.mark.parametrize("limit", [512, 4])
def test_a_requested_size_beyond_the_models_own_names_the_nearest_that_runs(
    limit: int, tmp_path: Path
) -> None:
    dynamic = {"x": {1: ("length", 1, 600)}}
    with pytest.raises(ModelError, match="the model fails at the sizes x:3x600") as caught:
        deploy(limit_length(limit), tmp_path, dynamic=dynamic)
    assert str(caught.value.hint).endswith(f"those that the model accepts, such as x:3x{limit}")


def test_larger_sizes_are_skipped_for_slow_runs_or_zero_probes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "thread_time", count(0.0, 0.3).__next__)
    assert deploy(double, tmp_path / "slow").extent().endswith("'length' up to 7")
    assert deploy(double, tmp_path / "alone", probes=0).extent().endswith("'length' up to 4")


@pytest.mark.slow
def test_larger_sizes_are_skipped_for_huge_tensors(tmp_path: Path) -> None:
    def wide(x: torch.Tensor) -> torch.Tensor:
        return (x[:, None] + torch.zeros(2_000_000, 1)).amax(1)

    assert deploy(wide, tmp_path).extent().endswith("'batch' up to 5, 'length' up to 7")
