"""Engines of modules and ONNX files, built with the settings of an artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from packages.lab.tests.diagnosis.models import SLIPS, Block, deployed, short
from packages.lab.tests.diagnosis.onnx_files import X, node, save_graph
from torch import nn

import enginebay as eb
from enginebay.errors import ConversionError, EnginebayError, UsageError
from enginebay_lab.diagnosis.piece_engines import BuildOptions, PieceEngines
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

OPTIONS = BuildOptions((), None, None, 600.0)

#: The loopback backend, whose engine crashes if its parameter says so, or for a Tanh.
BRITTLE = """
import os
import enginebay as eb
import msgspec
import onnx
from enginebay_testing import loopback
from enginebay_testing.loopback import check_env, to_backend

class BrittleParams(loopback.LoopbackParams):
    brittle: bool = False

@eb.hookimpl
def backend_info():
    return msgspec.structs.replace(loopback.backend_info(), name="brittle", params=BrittleParams)

@eb.hookimpl
def build_wrapper(request):
    graph = onnx.load(request.directory / request.files[0]).graph
    if request.params.brittle or any(node.op_type == "Tanh" for node in graph.node):
        os._exit(9)
    return loopback.build_wrapper(request)
"""


@pytest.fixture(scope="module")
def artifacts(
    loopback: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, eb.Artifact]]:
    """The same small model, deployed with right, wrong and crashing engines."""
    folder = tmp_path_factory.mktemp("artifacts")
    shapes = {"min_shapes": "input:1x3", "max_shapes": "input:8x3"}
    with temporary_backend("brittle", BRITTLE):
        yield {
            "right": deployed(folder / "right", model=short, probes=0, params=shapes),
            "wrong": deployed(folder / "wrong", model=short, probes=0, params={"gain": 1.5}),
            "brittle": deployed(folder / "brittle", model=short, probes=0, backend="brittle"),
        }


def engines_of(
    artifact: eb.Artifact, folder: Path, options: BuildOptions = OPTIONS, **given: Any
) -> PieceEngines:
    (folder / "engines").mkdir(exist_ok=True)
    return PieceEngines(artifact, given.get("other"), options, folder / "engines")


@pytest.fixture
def right(artifacts: dict[str, eb.Artifact], tmp_path: Path) -> PieceEngines:
    return engines_of(artifacts["right"], tmp_path)


def test_the_settings_are_those_of_the_artifact_without_its_shapes(
    right: PieceEngines, artifacts: dict[str, eb.Artifact], tmp_path: Path
) -> None:
    assert artifacts["right"].manifest.params["min_shapes"]
    assert (right.params.min_shapes, right.params.max_shapes) == ({}, {})
    assert (right.backend.name, right.ir, right.precision) == ("loopback", "onnx", "fp32")
    assert (right.count, right.timeout) == (0, 600.0)
    wrong = engines_of(artifacts["wrong"], tmp_path)
    assert wrong.params.gain == 1.5  # type: ignore[attr-defined]  # the loopback's


def test_a_module_of_other_shapes_than_the_model_is_compared(right: PieceEngines) -> None:
    module, tensors = nn.Softplus().eval(), [torch.randn(4, 5, 6)]
    found = right.compare_module(module, tensors, ["soft"])
    assert {name: output.passed for name, output in found.outputs.items()} == {"soft": True}
    assert (found.crashed, found.doubt, right.count) == ("", "", 1)
    first = found.folder
    assert first.is_dir()
    again = right.compare_module(module, tensors, ["soft"])
    assert (right.count, again.folder.is_dir(), first.exists()) == (2, True, False)


class Clips(nn.Module):
    """A module of any number of tensors, as a combination of pieces is."""

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.relu() for tensor in tensors)


def test_further_inputs_are_compared_too(artifacts: dict[str, eb.Artifact], tmp_path: Path) -> None:
    engines = engines_of(artifacts["wrong"], tmp_path)
    zeros, large = torch.zeros(1, 3), torch.full((1, 3), 100.0)
    found = engines.compare_module(Clips(), [zeros], ["y"], items=[[large]])
    assert not found.outputs["y"].passed  # 1.5 times 0 is right
    assert found.outputs["y"].sample.startswith("item")
    assert found.outputs["y"].max_abs_error == 50


def test_rewriters_that_changed_the_module_are_named_the_callers_first(
    artifacts: dict[str, eb.Artifact], tmp_path: Path
) -> None:
    engines = engines_of(artifacts["right"], tmp_path, OPTIONS._replace(rewriters=[SLIPS]))
    found = engines.compare_module(nn.GELU(), [torch.randn(2, 3)], ["y"])
    assert found.rewriters[0] == "torch.nn.functional.gelu"
    assert not found.outputs["y"].passed
    other = engines.compare_module(nn.ReLU(), [torch.randn(2, 3)], ["y"])
    assert "torch.nn.functional.gelu" not in other.rewriters


def test_modules_that_a_rewriter_replaces_are_found(
    artifacts: dict[str, eb.Artifact], tmp_path: Path
) -> None:
    rewriters = eb.RewriterSet()

    @rewriters.module(f"{Block.__module__}.Block")
    class Other(nn.Module):
        def __init__(self, ctx: Any, module: Block) -> None:
            super().__init__()
            self.conv = module.conv

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x)

    model = nn.Sequential(nn.Sequential(Block(nn.SiLU())), nn.Tanh()).eval()
    engines = engines_of(artifacts["right"], tmp_path, OPTIONS._replace(rewriters=[rewriters]))
    assert engines.find_replaced(model) >= {"0.0"}
    assert "1" not in engines.find_replaced(model)
    assert engines_of(artifacts["right"], tmp_path).find_replaced(model) == set()
    assert isinstance(model[0][0], Block)  # put back


def test_a_crash_is_told_and_has_no_outputs(
    artifacts: dict[str, eb.Artifact], tmp_path: Path
) -> None:
    engines = engines_of(artifacts["brittle"], tmp_path)
    found = engines.compare_module(nn.Tanh(), [torch.randn(1, 3)], ["y"])
    assert "exit code 9" in found.crashed
    assert found.outputs == {}


def test_another_engine_may_be_the_reference(
    artifacts: dict[str, eb.Artifact], tmp_path: Path
) -> None:
    engines = engines_of(artifacts["wrong"], tmp_path, other=artifacts["wrong"])
    found = engines.compare_module(nn.ReLU(), [torch.ones(1, 3)], ["y"])
    assert found.outputs["y"].passed  # both are wrong in the same way
    assert engines.count == 2
    brittle = engines_of(artifacts["wrong"], tmp_path, other=artifacts["brittle"])
    with pytest.raises(ConversionError, match=r"^the reference engine crashed: .*exit code 9"):
        brittle.compare_module(nn.Tanh(), [torch.ones(1, 3)], ["y"])


@pytest.mark.parametrize(("rtol", "passed"), [(None, False), (0.6, True), (0.1, False)])
def test_the_tolerance_of_the_caller_counts(
    artifacts: dict[str, eb.Artifact], tmp_path: Path, rtol: float | None, passed: bool
) -> None:
    engines = engines_of(artifacts["right"], tmp_path, OPTIONS._replace(rtol=rtol))
    expected, found = {"y": np.float32([2])}, {"y": np.float32([3])}
    (output,) = engines.compare_values(expected, found, "fp32")
    assert output.passed is passed


def test_a_wrong_tolerance_is_the_callers_mistake(
    artifacts: dict[str, eb.Artifact], tmp_path: Path
) -> None:
    engines = engines_of(artifacts["right"], tmp_path, OPTIONS._replace(atol=-1.0))
    with pytest.raises(UsageError, match=r'^invalid atol "-1.0": expected a number of at least 0$'):
        engines.compare_values({}, {}, "fp32")


def compare(
    engines: PieceEngines, folder: Path, nodes: Sequence[Any], expected: np.ndarray
) -> tuple[Any, ...]:
    save_graph(folder / "piece.onnx", nodes)
    return engines.compare_file(folder / "piece.onnx", {"x": X}, {"y": expected})


def test_a_file_is_compared_with_expected_values(
    artifacts: dict[str, eb.Artifact], tmp_path: Path, right: PieceEngines
) -> None:
    nodes = [node("Neg", "x", "y")]
    (output,) = compare(right, tmp_path, nodes, -X)
    assert (output.passed, output.name, right.count) == (True, "y", 1)
    (output,) = compare(engines_of(artifacts["wrong"], tmp_path), tmp_path, nodes, -X)
    assert output.max_abs_error == 1  # half of 2


def test_a_file_that_crashes_its_engine_ends_only_the_engine(
    artifacts: dict[str, eb.Artifact], tmp_path: Path
) -> None:
    engines = engines_of(artifacts["brittle"], tmp_path)
    with pytest.raises(EnginebayError, match="exit code 9"):
        compare(engines, tmp_path, [node("Tanh", "x", "y")], X)
    (output,) = compare(engines, tmp_path, [node("Neg", "x", "y")], -X)
    assert output.passed
