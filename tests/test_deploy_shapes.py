"""Several inputs, nested outputs, open dimensions, small and large dtypes, external data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run


class Rich(nn.Module):
    """Inputs: floats, token ids and a mask. Output: a nested dict."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> dict[str, Any]:
        mixed = x + self.embedding(ids) * mask.unsqueeze(-1)
        y = self.linear(mixed)
        return {"scores": y, "best": [y.argmax(-1), (y > 0, y.sum())]}


def example(batch: int, length: int) -> dict[str, torch.Tensor]:
    return {
        "x": torch.randn(batch, length, 4),
        "ids": torch.randint(0, 10, (batch, length)),
        "mask": torch.rand(batch, length) > 0.5,
    }


@pytest.fixture(scope="module", params=["dynamo", "torchscript"])
def deployed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Rich, eb.Deployment]:
    torch.manual_seed(0)
    model = Rich().eval()
    batch, length = ("batch", 1, 6), ("length", 2, 9)
    deployment = eb.deploy(
        model,
        example(3, 5),
        backend="onnxruntime",
        work_dir=tmp_path_factory.mktemp("rich") / "out",
        dynamic={name: {0: batch, 1: length} for name in ("x", "ids", "mask")},
        export=eb.ExportOptions(exporter=request.param),
    )
    return model, deployment


def test_artifact_has_the_signature_of_the_model(deployed: tuple[Rich, eb.Deployment]) -> None:
    artifact = deployed[1].artifact
    assert [spec.describe() for spec in artifact.inputs] == [
        "x float32[batch, length, 4]",
        "ids int64[batch, length]",
        "mask bool[batch, length]",
    ]
    assert [(spec.name, spec.dtype) for spec in artifact.outputs] == [
        ("scores", "float32"),
        ("best.0", "int64"),
        ("best.1.0", "bool"),
        ("best.1.1", "float32"),
    ]
    sizes = {sample.inputs["x"].shape for sample in artifact.samples()}
    batches, lengths = ({shape[axis] for shape in sizes} for axis in (0, 1))
    assert batches == set(range(1, 7)), "each size, since there are few"
    assert {2, 3, 5, 7, 9} <= lengths, "the limits, the usual one, odd and prime ones"


@pytest.mark.parametrize(("batch", "length"), [(1, 2), (3, 5), (6, 9), (2, 7)])
def test_outputs_match_the_model_at_every_size(
    deployed: tuple[Rich, eb.Deployment], batch: int, length: int
) -> None:
    model, deployment = deployed
    inputs = example(batch, length)
    expected = model(**inputs)
    with eb.load(deployment.artifact) as wrapper:
        found = wrapper(inputs)
    torch.testing.assert_close(found["scores"], expected["scores"], rtol=1e-4, atol=1e-5)
    assert torch.equal(found["best.0"], expected["best"][0])
    torch.testing.assert_close(found["best.1.1"], expected["best"][1][1], rtol=1e-4, atol=1e-4)


def test_unequal_sizes_of_a_shared_dimension_are_refused(
    deployed: tuple[Rich, eb.Deployment],
) -> None:
    from enginebay.errors import InputError

    inputs = example(3, 5) | {"ids": torch.zeros(2, 5, dtype=torch.int64)}
    with eb.load(deployed[1].artifact) as wrapper, pytest.raises(InputError) as caught:
        wrapper(inputs)
    assert str(caught.value) == (
        "dimension 'batch' has size 2 in input 'ids', but size 3 in input 'x': the sizes must "
        "be equal"
    )


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize(("batch", "found"), [(0, "size 0"), (7, "size 7")])
def test_sizes_beyond_the_deployed_range_are_refused(
    deployed: tuple[Rich, eb.Deployment], batch: int, found: str, isolated: bool
) -> None:
    from enginebay.errors import InputError

    artifact = deployed[1].artifact
    assert artifact.manifest.sizes["mask"] == {0: (1, 6), 1: (2, 9)}
    with eb.load(artifact, isolated=isolated) as wrapper, pytest.raises(InputError) as caught:
        wrapper(example(batch, 5))
    beyond = f"; beyond what was verified: 'batch' is {batch}, verified: batch 1..6"
    assert str(caught.value) == (
        f"input 'x' has {found} in dimension 0 of ({batch}, 5, 4), but the artifact was made for "
        f"sizes of 1 to 6: x float32[batch, length, 4]{beyond if isolated else ''}"
    )


def test_min_and_max_shapes_open_the_batch_dimension(cli: Run) -> None:
    ran = cli(
        *("deploy", "models.py:build", "--exporter", "torchscript", "--backend", "onnxruntime"),
        *("--min-shapes", "x:1x4", "--max-shapes", "x:16x4", "--work-dir", "out"),
    )
    assert ran.code == 0, ran.err
    assert "; batch 1..16\n" in ran.out or "; x_0 1..16\n" in ran.out
    for batch in (1, 7, 16):
        ran = cli("run", "out", "--input", f"x={batch}x4")
        assert f"output  float32  {batch}x3 " in ran.out
    assert cli("run", "out").code == 0, "the recorded inputs"


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_onnx_file_is_verified_over_the_given_shape_range(tmp_path: Path, backend: str) -> None:
    eb.export(
        nn.Linear(4, 3),
        torch.ones(2, 4),
        path=tmp_path / "net.onnx",
        dynamic={"input": {0: "n"}},
    )
    deployed = eb.deploy(
        str(tmp_path / "net.onnx"),
        {"input": torch.ones(2, 4)},
        backend=backend,
        work_dir=tmp_path / "out",
        params={"min_shapes": {"input": (1, 4)}, "max_shapes": {"input": (16, 4)}},
    )
    sizes = {len(sample.inputs["input"]) for sample in deployed.artifact.samples()}
    assert sizes == {1, 2, 7, 9, 16}


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_half_precision_model_is_verified_with_a_wider_tolerance(
    tmp_path: Path, exporter: Any
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).half().eval()
    deployment = eb.deploy(
        model,
        torch.randn(2, 8).half(),
        backend="onnxruntime",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(exporter=exporter),
    )
    assert deployment.verdict == "verified"
    artifact = deployment.artifact
    assert [spec.dtype for spec in (*artifact.inputs, *artifact.outputs)] == ["float16", "float16"]
    (output,) = deployment.verification.outputs
    assert output.dtype == "float16"
    assert output.rtol > 1e-4, "tolerances follow the dtype"


def test_precision_fp16_widens_the_tolerance(cli: Run) -> None:
    words = ("deploy", "models.py:build", "--exporter", "torchscript", "--backend", "onnxruntime")
    half = cli(*words, "--precision", "fp16", "--work-dir", "half", "--json").document
    full = cli(*words, "--work-dir", "full", "--json").document
    verifications = {
        name: document["manifest"]["verification"]
        for name, document in {"fp16": half, "fp32": full}.items()
    }
    assert {name: verification["precision"] for name, verification in verifications.items()} == {
        "fp16": "fp16",
        "fp32": "fp32",
    }
    assert verifications["fp16"]["outputs"][0]["rtol"] > verifications["fp32"]["outputs"][0]["rtol"]
    assert verifications["fp16"]["outputs"][0]["max_abs_error"] > 0


def test_external_data_travels_with_the_artifact(cli: Run, here: Path) -> None:
    import onnx

    (here / "wide.py").write_text(
        "import torch\nfrom torch import nn\n\n\n"
        "def build():\n"
        "    torch.manual_seed(0)\n"
        "    return nn.Linear(64, 64), torch.randn(1, 64)\n"
    )
    assert cli("export", "wide.py:build", "--exporter", "torchscript").code == 0
    model = onnx.load(here / "build.onnx")
    (here / "ext").mkdir()
    onnx.save(
        model,
        here / "ext" / "wide.onnx",
        save_as_external_data=True,
        location="wide.weights",
        size_threshold=0,
    )
    ran = cli("deploy", "ext/wide.onnx", "--backend", "onnxruntime", "--work-dir", "out")
    assert ran.code == 0, ran.err
    assert "verified against onnx's reference evaluator" in ran.out
    (here / "out").rename(here / "moved")
    for file in (here / "ext").iterdir():
        file.unlink()
    assert cli("verify", "moved").code == 0
    assert cli("verify", "moved", "--model", "wide.py:build").code in (0, 2)
    manifest = cli("inspect", "moved", "--json").document["manifest"]
    assert sum(entry["size"] for entry in manifest["files"]) > 64 * 64 * 4


def test_verify_compares_with_given_outputs(tmp_path: Path) -> None:
    model = nn.ReLU()
    x = torch.tensor([[-1.0, 2.0]])
    deployment = eb.deploy(
        model,
        x,
        backend="onnxruntime",
        work_dir=tmp_path / "out",
        export=eb.ExportOptions(exporter="torchscript"),
    )
    (name,) = [spec.name for spec in deployment.artifact.inputs]
    inputs = {name: x.numpy()}
    right = eb.verify(deployment.artifact, inputs, {"output": np.float32([[0, 2]])})
    assert (right.verdict, right.reference) == ("verified", "the passed outputs")
    wrong = eb.verify(deployment.artifact, inputs, {"output": np.float32([[np.nan, 2]])})
    assert wrong.verdict == "mismatched"
    (output,) = wrong.outputs
    assert (output.worst_index, output.worst_expected) == ((0, 0), "nan")
