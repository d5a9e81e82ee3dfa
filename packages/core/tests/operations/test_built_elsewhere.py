"""An engine that is built here for another device: its graph is compared, the engine is not."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import BackendUnavailableError, NotVerifiedError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

MACHINES = "built for a board of kind 1 or 2, and this machine has no board"
NEXT = "on such a machine: enginebay verify ARTIFACT"

#: A rewriter that is wrong by a percent.
SLIPS = eb.RewriterSet()


@SLIPS.function("torch.nn.functional.gelu")
def _gelu(ctx: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return ctx.origin_func(x, *args, **kwargs) * 1.01


def deploy(folder: Path, **given: Any) -> eb.Deployment:
    return eb.deploy(
        nn.GELU(),
        torch.linspace(-2, 2, 6),
        backend="ahead",
        work_dir=folder,
        **given,
    )


def test_the_graph_agrees_and_the_engine_stays_unverified(ahead: str, tmp_path: Path) -> None:
    made = deploy(tmp_path / "out")
    assert made.verification.summary() == f"unverified: {MACHINES}; {NEXT}"
    assert (made.receipt, made.verification.outputs, made.verification.samples) == (None, (), 0)
    simulation = made.verification.simulation
    assert simulation is not None
    assert simulation.engine.startswith("onnx.reference ")
    assert (simulation.samples, simulation.failed) == (6, ())
    assert [(output.name, output.passed) for output in simulation.outputs] == [("output", True)]
    assert " ran the graph: 1 output on 6 samples; worst: " in simulation.describe()
    assert " on 6 samples; these are not the engine" in made.verification._repr_html_()
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["built_for"] == "a board of kind 1 or 2"
    assert not (tmp_path / "out" / "simulation").exists()


def test_wrong_rewriter_is_a_mismatch_without_running_the_engine(
    ahead: str, tmp_path: Path
) -> None:
    with pytest.raises(NotVerifiedError) as caught:
        deploy(tmp_path / "out", export={"rewriters": [SLIPS]})
    assert str(caught.value).startswith(
        "mismatched: the graph that the engine is built from is wrong when onnx.reference "
    )
    assert re.search(r' runs it: "output" .*at \[\d\]: expected ', str(caught.value))
    assert not (tmp_path / "out").exists()
    made = deploy(tmp_path / "out", export={"rewriters": [SLIPS]}, verify={"allow_mismatch": True})
    assert made.verification.simulation is not None
    assert made.verification.simulation.failed
    assert made.artifact.verdict == "mismatched"


@pytest.mark.parametrize(
    ("fate", "why"),
    [
        ("crash", "the engine that runs the graph ended with SIGSEGV"),
        ("missing", "'onnx' is needed to run the graph"),
        ("none", "no file '"),
    ],
)
@pytest.mark.one_in(3)
def test_artifact_is_published_when_its_graph_cannot_run(
    ahead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fate: str, why: str
) -> None:
    monkeypatch.setenv("AHEAD_GRAPH", fate)
    verification = deploy(tmp_path / "out").verification
    assert verification.simulation is None
    begin = f"unverified: {MACHINES}; the engine's graph did not run: {why}"
    assert verification.summary().startswith(begin)
    assert verification.summary().endswith(f"; {NEXT}")


def test_graphs_of_a_partitioned_model_are_run_as_a_chain(
    ahead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Two(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(eb.mark(torch.sigmoid(x), "middle") - 0.5)

    made = eb.deploy(
        Two(),
        torch.randn(2, 3),
        backend="ahead",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(cuts=["middle"]),
    )
    assert made.verification.simulation is not None
    assert made.verification.simulation.samples == 6
    assert len(made.artifact.manifest.parts) == 2
    assert not list((tmp_path / "out").rglob("simulation"))
    monkeypatch.setenv("AHEAD_DEVICE", "Board 1")
    assert eb.verify(made.artifact).verdict == "verified"


def test_strict_load_and_verify_are_refused_without_the_device(ahead: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        deploy(tmp_path / "strict", verify={"strict": True})
    assert str(caught.value).partition("\n")[0] == (
        "'strict' checks the fallbacks of the engine, but the engine cannot run here: it is built "
        "for a board of kind 1 or 2, and this machine has no board"
    )
    artifact = deploy(tmp_path / "out").artifact
    for use in (eb.load, eb.verify):
        with pytest.raises(
            BackendUnavailableError, match=r"and this machine has no board\n"
        ) as err:
            use(artifact.path)
        assert err.value.hint == "copy the artifact to such a machine"
        assert err.value.exit_code == 3


def test_model_without_a_reference_suggests_a_run_on_device(ahead: str, tmp_path: Path) -> None:
    import onnx
    from onnx import helper

    spec = [helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    node = helper.make_node("Strange", ["x"], ["y"], domain="mine")
    graph = helper.make_graph([node], "g", spec[:1], spec[1:])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), tmp_path / "strange.onnx")
    deployed = eb.deploy(tmp_path / "strange.onnx", backend=ahead, work_dir=tmp_path / "out")
    reason = deployed.verification.reason
    assert reason.startswith(f"{MACHINES}; the engine's graph did not run: ")
    assert reason.endswith("; on such a machine: enginebay run ARTIFACT")
    assert deployed.verification.reference == ""


def test_environment_check_reports_the_missing_device(ahead: str) -> None:
    report = eb.get_backend(ahead).check_env()
    assert report.failed is not None
    assert (report.failed.tier.value, report.failed.found) == ("device", "none")
    assert not eb.get_backend(ahead).is_available()


@pytest.mark.parametrize(
    ("graph", "doubt"),
    [
        ("", "converted without a reference to compare with"),
        ("missing", "the engine's graph did not run: 'onnx' is needed to run the graph"),
    ],
    ids=["loads", "does not load"],
)
def test_graph_of_a_converted_engine_is_loaded_by_another_engine(
    ahead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graph: str, doubt: str
) -> None:
    monkeypatch.setenv("AHEAD_GRAPH", graph)
    eb.export(nn.ReLU(), torch.randn(2, 3), path=tmp_path / "net.onnx")
    made = eb.convert(tmp_path / "net.onnx", backend=ahead, work_dir=tmp_path / "out")
    assert made.manifest.verification is not None
    assert made.manifest.verification.reason == (
        f"{MACHINES}; {doubt}; on such a machine: enginebay run ARTIFACT"
    )
    assert made.manifest.receipt is None
    assert not (tmp_path / "out" / "simulation").exists()
