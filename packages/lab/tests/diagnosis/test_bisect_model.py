"""The first module that an engine computes wrongly, on the backend without an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from packages.lab.tests.diagnosis.models import (
    BETWEEN,
    SLIPS,
    Chance,
    Home,
    Whole,
    build,
    deployed,
    integers,
    short,
)
from torch import nn

import enginebay as eb
import enginebay_lab as lab
from enginebay_lab.diagnosis import module_search

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("loopback")


def test_a_wrong_rewriter_is_found_in_a_model_of_integers(tmp_path: Path) -> None:
    slips = eb.RewriterSet()
    slips.function("torch.Tensor.abs")(lambda ctx, x: ctx.origin_func(x) + 1)
    artifact = deployed(tmp_path, slips, model=integers)
    found = lab.bisect(artifact, integers()[0], rewriters=[slips])
    assert (found.module, found.step, found.alone) == ("1", "export", 1.0)


@pytest.mark.slow
def test_a_wrong_rewriter_is_found_in_its_module(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, SLIPS)
    found = lab.bisect(artifact, build()[0], rewriters=[SLIPS])
    assert (found.found, found.module, found.step) == (True, "body.1.act", "export")
    assert (found.node, found.operator) == ("/model/body/body.1/act/Mul", "Mul")
    assert found.rewriters[0] == "torch.nn.functional.gelu"
    places = {place.title: place for place in found.places}
    assert not places["body.1.conv"].wrong
    assert places["body.1.act"].wrong_alone
    assert places["rnn"].wrong
    assert places["rnn"].wrong_alone is False  # it only received wrong inputs
    assert places["head (call 2)"].wrong
    assert found.alone == pytest.approx(places["body.1.act"].accumulated, rel=0.1)
    assert found.reason.startswith(
        "loopback differs from PyTorch at 'body.1.act', node '/model/body/body.1/act/Mul' (Mul): "
        "off by"
    )
    assert found.reason.endswith(
        "the exported graph is wrong there, because of a rewriter (torch.nn.functional.gelu) or "
        "the exporter"
    )
    assert found.engines == 4


def test_an_error_between_modules_belongs_to_the_model(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, BETWEEN)
    found = lab.bisect(artifact, build()[0], rewriters=[BETWEEN])
    assert (found.found, found.module, found.step) == (True, "", "export")
    assert next(place.module for place in found.places if place.wrong) == "rnn"
    assert "at the model's own code, node " in found.reason


def test_windows_limit_the_outputs_of_one_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_search, "_GROUP_OUTPUTS", 3)
    monkeypatch.setattr(module_search, "_ALONE_MODULES", 1)
    found = lab.bisect(deployed(tmp_path, SLIPS), build()[0], rewriters=[SLIPS])
    assert found.module == "body.1.act"
    assert len([place for place in found.places if place.accumulated is not None]) == 6


def test_a_wrong_engine_is_found_at_its_first_node(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, model=short, params={"gain": 1.5})
    found = lab.bisect(artifact, short()[0])
    assert (found.module, found.node) == ("0", "/model/model.0/Gemm")
    assert (found.step, found.together, found.rewriters) == ("engine", (), ())
    assert found.reason.endswith("the exported graph is right there, but the engine is wrong")


def test_modules_that_a_rewriter_removes_are_not_searched(tmp_path: Path) -> None:
    rewriters = eb.RewriterSet()
    rewriters.module(f"{Whole.__module__}.Block")(Whole)
    artifact = deployed(tmp_path, rewriters)
    found = lab.bisect(artifact, build()[0], rewriters=[rewriters])
    assert (found.module, found.step) == ("body.0", "export")
    assert [place.module for place in found.places][:2] == ["body.0", "body.1"]


def test_a_module_that_does_not_run_alone_is_named_as_the_culprit(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Home().eval()
    given: dict[str, Any] = {"model": lambda: (model, torch.randn(1, 3)), "probes": 0}
    found = lab.bisect(deployed(tmp_path, BETWEEN, **given), model, rewriters=[BETWEEN])
    assert (found.module, found.step, found.alone, found.node) == ("shy", "unknown", None, "")
    assert found.reason.startswith("loopback differs from PyTorch at 'shy': off by ")
    assert found.reason.endswith(
        " when the engine runs the model from its inputs; this part could not be measured alone"
    )


def test_nothing_is_found_in_a_correct_engine(tmp_path: Path) -> None:
    found = lab.bisect(deployed(tmp_path, model=short), short()[0])
    assert (found.found, found.step, found.engines) == (False, "none", 1)
    assert found.reason == (
        "a rebuilt engine has no wrong output on this sample; the artifact may differ because of "
        "its dynamic dimensions, its other samples, or your own rewriters (--rewriters)"
    )


def test_a_random_model_is_not_searched(tmp_path: Path) -> None:
    found = lab.bisect(
        deployed(tmp_path, model=lambda: (Chance(), torch.ones(1, 3)), probes=0), Chance()
    )
    assert not found.found
    assert found.reason.startswith("the model is not deterministic, a second run differs: ")


class Best(nn.Module):
    """Returns integers, which a search leaves out within the model."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(x).argmax(-1)


def test_a_model_that_returns_wrong_integers_is_measured(tmp_path: Path) -> None:
    slips = eb.RewriterSet()
    slips.function("torch.Tensor.argmax")(lambda ctx, x, dim: ctx.origin_func(x, dim) + 1)
    torch.manual_seed(0)
    model = Best().eval()
    artifact = deployed(tmp_path, slips, model=lambda: (model, torch.randn(2, 3)), probes=0)
    found = lab.bisect(artifact, model, rewriters=[slips])
    assert (found.found, found.module, found.step, found.operator) == (True, "", "export", "Add")
    assert (found.accumulated, found.alone) == (1.0, 1.0)
    assert found.rewriters[0] == "torch.Tensor.argmax"


def test_a_rewriter_that_changes_the_only_output_is_found(tmp_path: Path) -> None:
    class Mean(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean(-1)

    slips = eb.RewriterSet()
    slips.function("torch.Tensor.mean")(lambda ctx, x, dim: ctx.origin_func(x, dim, keepdim=True))
    artifact = deployed(tmp_path, slips, model=lambda: (Mean(), torch.randn(2, 3)), probes=0)
    found = lab.bisect(artifact, Mean(), rewriters=[slips])
    assert (found.module, found.step, found.operator) == ("", "export", "ReduceMean")
    assert found.reason == (
        f"loopback differs from PyTorch at the model's own code, node '{found.node}' (ReduceMean): "
        "its shape differs: expected (2,), found (2, 1)"
    )


class Remembers(nn.Module):
    """Returns something else each time, unless the model around it helps it to forget."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.nn.functional.gelu(x) * self.calls


class Forgets(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = Remembers(), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.inner.calls = 0
        return self.head(self.inner(x))


@pytest.mark.slow
def test_no_engine_is_blamed_for_a_module_that_differs_in_each_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Forgets().eval()
    artifact = deployed(tmp_path, SLIPS, model=lambda: (model, torch.randn(1, 3)), probes=0)
    found = lab.bisect(artifact, model, rewriters=[SLIPS])
    assert (found.module, found.step, found.node) == ("inner", "unknown", "")
    assert found.reason.endswith("; this part could not be measured alone")
    # As a piece of its own it would differ from itself: it is compared within the model's code.
    checked = lab.pieces(artifact, model, rewriters=[SLIPS])
    assert [(row.module, row.verdict) for row in checked.rows] == [
        *(("", "mismatched"), ("head", "verified"))
    ]


def test_the_whole_model_may_be_the_wrong_module(tmp_path: Path) -> None:
    class Sums(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"sum": x + y, "mean": (x * y).mean(-1)}

    inputs = (torch.ones(1, 3), torch.arange(3.0)[None])
    artifact = deployed(tmp_path, BETWEEN, model=lambda: (Sums(), inputs), probes=0)
    found = lab.bisect(artifact, Sums(), rewriters=[BETWEEN])
    assert (found.module, found.step) == ("", "export")
    assert found.alone == pytest.approx(0.25)
    assert [place.title for place in found.places] == ["(the model)"]
    assert (found.rtol, found.atol) != (None, None)
    assert found.sample == "example"
    assert found.reference == "PyTorch"
