"""Engines that are built where no GPU is: judged by their graph here, and verified on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import BackendUnavailableError, NotVerifiedError
from enginebay.hooks import BuiltFor
from enginebay_tensorrt.params import TensorrtRtxParams
from enginebay_tensorrt.portability import built_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REASON = (
    "built for a GPU of compute capability 8.9 or 12.0, and this machine has no NVIDIA driver "
    "(libcuda.so.1); on such a machine: enginebay verify ARTIFACT"
)


def deployed(
    tmp_path: Path, params: Any = None, export: Any = None, verify: Any = None, data: Any = None
) -> Any:
    """Two layers that 8 bits are for, on a machine without a GPU."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    return eb.deploy(
        nn.Sequential(*layers).eval(),
        torch.randn(2, 3, 8, 8),
        backend="tensorrt-rtx",
        work_dir=tmp_path / "a",
        params={"compute_capability": ["sm89", "sm120"], **(params or {})},
        data=data,
        export={"input_names": ["x"], "exporter": "torchscript", **(export or {})},
        verify=verify,
    )


@pytest.mark.filterwarnings("ignore::enginebay.verdict.VerdictWarning")
def test_only_a_gpu_gives_a_verdict(no_gpu: Callable[[], None], tmp_path: Path) -> None:
    made = deployed(tmp_path)
    found = made.artifact.manifest.verification
    assert (made.verdict, found.reason) == ("unverified", REASON)
    assert found.simulation is not None
    assert found.simulation.engine.startswith("onnxruntime ")
    assert [(one.name, one.passed) for one in found.simulation.outputs] == [("output", True)]
    assert not (made.artifact.path / "simulation").exists()
    assert dict(made.artifact.manifest.pinned)["compute_capability"] == "8.9, 12.0"
    assert made.artifact.manifest.runs == ()
    lacking = "is built for a GPU .* and this machine has no NVIDIA driver"
    with pytest.raises(BackendUnavailableError, match=lacking):
        eb.load(made.artifact)

    no_gpu()
    assert eb.verify(made.artifact).verdict == "verified"
    again = eb.open_artifact(made.artifact.path).manifest
    assert again.verification.verdict == "verified"
    assert len(again.runs) == 1


@pytest.mark.filterwarnings("ignore::enginebay.verdict.VerdictWarning")
def test_an_engine_for_another_gpu_is_refused(
    no_gpu: Callable[[], None], machine: Any, tmp_path: Path
) -> None:
    made = deployed(tmp_path)
    no_gpu()
    machine.capability = (8, 6)
    lacking = r"12\.0, and this machine has NVIDIA Fake 1 of compute capability 8\.6"
    with pytest.raises(BackendUnavailableError, match=lacking):
        eb.load(made.artifact)


@pytest.mark.parametrize("precision", ["int8", "fp8"])
@pytest.mark.filterwarnings("ignore::enginebay.verdict.VerdictWarning")
def test_quantised_graphs_are_built(
    no_gpu: Callable[[], None], tmp_path: Path, precision: str
) -> None:
    """The real parser and builder take the Q/DQ nodes of a convolution and a Gemm."""
    data = [{"x": torch.randn(2, 3, 8, 8).numpy()} for _ in range(16)]
    made = deployed(tmp_path, {"precision": precision}, data=data)
    found = made.artifact.manifest.verification
    assert (made.verdict, found.reason) == ("unverified", REASON)
    assert found.simulation is not None
    assert found.simulation.precision == precision
    assert found.simulation.failed == ()


@pytest.mark.parametrize(
    ("precision", "generation", "lacking"),
    [("fp16", "Ampere", ""), ("fp8", "Ada", "NVIDIA Fake 1 of compute capability 8.6")],
)
def test_the_oldest_generation_depends_on_the_precision(
    machine: Any, precision: Any, generation: str, lacking: str
) -> None:
    machine.capability = (8, 6)
    params = TensorrtRtxParams(precision=precision)
    machines = f"a GPU of {generation} or a newer generation"
    assert built_for(params) == BuiltFor(machines, lacking=lacking)


def test_a_gpu_that_tensorrt_for_rtx_does_not_support_is_named(machine: Any) -> None:
    machine.capability = (9, 0)
    lacking = "NVIDIA Fake 1 of compute capability 9.0, on which TensorRT for RTX does not run"
    machines = "a GPU of Ampere or a newer generation"
    assert built_for(TensorrtRtxParams()) == BuiltFor(machines, lacking=lacking)
    machine.capability = (13, 0)
    assert built_for(TensorrtRtxParams()) == BuiltFor(machines)


def test_a_wrong_rewriter_is_found_without_a_gpu(
    no_gpu: Callable[[], None], tmp_path: Path
) -> None:
    wrong = eb.RewriterSet(backend="tensorrt-rtx")

    @wrong.function("torch.nn.functional.relu")
    def relu(ctx: Any, x: torch.Tensor, inplace: bool = False) -> torch.Tensor:
        return torch.clamp(x, min=0.5)

    with pytest.raises(NotVerifiedError) as caught:
        deployed(tmp_path, export={"rewriters": [wrong]})
    assert "output" in str(caught.value)
    assert not (tmp_path / "a").exists()
