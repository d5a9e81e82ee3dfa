"""``lab.bisect``: which artifact, model and inputs are searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from packages.lab.tests.diagnosis.models import (
    Chance,
    deployed,
    short,
)
from torch import nn

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import ArtifactError, InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from packages.lab.tests.diagnosis.conftest import Layered

pytestmark = pytest.mark.usefixtures("loopback")


@pytest.mark.slow
def test_another_engine_can_be_the_reference(tmp_path: Path) -> None:
    wrong = deployed(tmp_path, model=short, params={"gain": 1.5})
    other = deployed(tmp_path / "other", model=short)
    found = lab.bisect(wrong, short()[0], against=other)
    assert found.module == "0"
    assert found.reference == f"the engine of '{other.path}'"


def test_the_worst_sample_is_searched(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, model=short, params={"gain": 1.5}, probes=3)
    verification = artifact.manifest.verification
    assert verification is not None
    worst = max(verification.outputs, key=lambda output: output.badness).sample
    assert lab.bisect(artifact, short()[0]).sample == worst != "example"
    own = [{"input": np.full((1, 3), value, np.float32)} for value in (0, 9, 1)]
    assert lab.bisect(artifact, short()[0], own[0]).sample == "example"
    assert lab.bisect(artifact, short()[0], own).sample == "item 1"


def test_wrong_inputs_are_refused(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, model=short, probes=0)
    with pytest.raises(
        InputError, match=r"^unknown input 'y': the model takes input\nhint: [^\n]+$"
    ):
        lab.bisect(artifact, short()[0], {"y": np.ones((1, 3), np.float32)})
    with pytest.raises(InputError, match=r"1, 3"):
        lab.bisect(artifact, short()[0], np.ones((1, 4), np.float32))


def test_an_artifact_of_a_python_object_does_not_know_its_model(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, model=short, probes=0)
    with pytest.raises(UsageError) as raised:
        lab.bisect(artifact)
    message = f"'{artifact.path}' does not record which model it was made from"
    assert (str(raised.value), raised.value.hint) == (message, "name the model: --model MODEL")


@pytest.mark.slow
def test_the_model_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "def build():\n"
        "    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Linear(2, 2)).eval(), torch.ones(1, 2)\n"
    )
    monkeypatch.chdir(tmp_path)
    artifact = deployed(tmp_path, model=lambda: ("net.py:build",), params={"gain": 2.0}, probes=0)
    assert artifact.manifest.model == f"{tmp_path}/net.py:build"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert lab.bisect(artifact).module == "0"
    (tmp_path / "net.py").unlink()
    with pytest.raises(UsageError) as raised:
        lab.bisect(artifact)
    model = f"{tmp_path}/net.py"
    message = f"'{artifact.path}' was made from '{model}:build', but '{model}' does not exist"
    assert (str(raised.value), raised.value.hint) == (message, "name the model: --model MODEL")


def test_a_model_that_was_cut_is_refused(tmp_path: Path) -> None:
    class Marked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return eb.mark(x.relu(), "middle").sigmoid()

    artifact = eb.deploy(
        *(Marked(), torch.ones(1, 2)),
        backend="loopback",
        work_dir=tmp_path / "net",
        export=eb.ExportOptions(cuts=["middle"], exporter="torchscript"),
        verify=eb.VerifyOptions(probes=0),
    ).artifact
    with pytest.raises(
        UsageError, match=r"^'.*' has 2 engines; bisect requires a single engine\nhint: [^\n]+$"
    ):
        lab.bisect(artifact, Marked())


@pytest.mark.slow
def test_a_model_without_fixed_outputs_is_not_searched_whatever_the_inputs(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, model=lambda: (Chance(), torch.ones(1, 3)), probes=0)
    (spec,) = artifact.inputs
    sets = [{spec.name: np.full((1, 3), value, np.float32)} for value in (1, 2)]
    found = lab.bisect(artifact, Chance(), sets)
    assert (found.found, found.sample) == (False, "item 0")
    assert found.reason.startswith("the model is not deterministic, a second run differs: ")


def test_an_engine_of_8_bits_has_a_ranking_instead(layered: Layered, tmp_path: Path) -> None:
    artifact = eb.deploy(
        *(layered.model, layered.example),
        **layered.options,
        data=layered.data,
        work_dir=tmp_path / "net",
        verify=eb.VerifyOptions(probes=0, allow_mismatch=True),
    ).artifact
    for diagnose in (lab.bisect, lab.pieces):
        with pytest.raises(UsageError) as raised:
            diagnose(artifact, layered.model)
        assert str(raised.value) == (
            f"'{artifact.path}' cannot be bisected: its engine computes in int8, where every layer "
            "has a small error"
        )
        assert raised.value.hint == "rank the layers by their errors: enginebay sensitivity MODEL"


def test_tolerances_decide_what_is_wrong(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, model=short, params={"gain": 1.001}, probes=0)
    model, _ = short()
    assert not lab.bisect(artifact, model, rtol=0.01).found  # wrong by a thousandth
    with pytest.raises(UsageError, match=r'^invalid rtol "-1.0": expected a number of at least 0$'):
        lab.bisect(artifact, model, rtol=-1.0)


def test_a_folder_that_is_no_artifact_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError):
        lab.bisect(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArtifactError):
        lab.bisect(tmp_path / "empty")


@pytest.mark.slow
def test_steps_are_reported_in_their_order(tmp_path: Path) -> None:
    artifact = deployed(tmp_path, model=short, params={"gain": 1.5}, probes=0)
    steps: dict[str, list[str]] = {}
    lab.bisect(
        artifact, short()[0], watch=lambda step: steps.setdefault(step.name, []).append(step.detail)
    )
    assert list(steps) == ["build", "modules", "nodes"]
    assert "the whole model" in steps["build"]
    assert {"0 … the model", "alone: 0, 1"} <= set(steps["modules"])
    assert steps["modules"][-1] == "0"
    assert "the graph of 0" in steps["nodes"]
