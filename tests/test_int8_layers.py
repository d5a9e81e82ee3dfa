"""Layers that stay in floating point in an 8-bit engine: by name, by rank, by accuracy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import ArtifactExistsError, NotVerifiedError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run

ENGINES = ("onnxruntime", "openvino")
INT8 = {"precision": "int8"}
IMAGES = np.random.default_rng(0).normal(size=(24, 1, 3, 12, 12)).astype(np.float32)


class Net(nn.Module):
    """A network with a channel, from ``wide`` to ``narrow``, 3000 times as large as others."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 8, 3)
        self.wide = nn.Conv2d(8, 8, 3)
        self.narrow = nn.Conv2d(8, 4, 3)
        self.head = nn.Linear(144, 4)
        with torch.no_grad():
            for layer in self.children():
                layer.bias *= 0.1
            self.wide.weight[0] *= 3000
            self.narrow.weight[:, 0] /= 3000

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.narrow(self.wide(self.stem(x).relu()))
        return self.head(x.flatten(1))


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return Net().eval()


@pytest.fixture(scope="module")
def items(model: nn.Module) -> list[Any]:
    labels = [int(model(torch.from_numpy(image)).argmax()) for image in IMAGES]
    return list(zip(({"x": image} for image in IMAGES), labels, strict=True))


def deploy(model: Any, items: list[Any], folder: Path, **over: Any) -> eb.Deployment:
    given = {"backend": "onnxruntime", "params": INT8, "data": items, **over}
    return eb.deploy(model, torch.from_numpy(IMAGES[0]), work_dir=folder, **given)


def quantize(model: Any, items: list[Any], folder: Path, **over: Any) -> lab.Quantization:
    given = {"backend": "onnxruntime", "params": INT8, "data": items, **over}
    return lab.quantize(model, torch.from_numpy(IMAGES[0]), work_dir=folder, **given)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("engine", ENGINES)
def test_sensitivity_lists_the_costliest_layers_first(
    model: nn.Module, items: list[Any], engine: str
) -> None:
    ranking = lab.sensitivity(
        model, torch.from_numpy(IMAGES[0]), data=items, backend=engine, params=INT8
    )
    levels = [layer.decibels for layer in ranking.nodes]
    assert (ranking.backend, ranking.precision, ranking.items) == (engine, "int8", 24)
    assert levels == sorted(levels)
    assert levels[0] < 20 < levels[2]
    first = {layer.node.partition("/")[0] for layer in ranking.nodes[:2]}
    assert first & {"node_conv2d_1", "node_conv2d_2"}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("engine", ENGINES)
def test_quantize_excludes_layers_until_the_engine_is_accurate(
    model: nn.Module, items: list[Any], tmp_path: Path, engine: str
) -> None:
    with pytest.raises(NotVerifiedError, match="run the worst layers in floating point"):
        deploy(model, items, tmp_path / "out", backend=engine)
    quantization = quantize(
        model, items, tmp_path / "out", backend=engine, metrics="accuracy", max_drop=0.01
    )
    done, accuracy = quantization.deployment, quantization.accuracy
    assert done.verdict == "verified"
    assert 0 < len(done.artifact.manifest.kept) <= 3
    assert (sorted(quantization.kept), quantization.layers) == (
        sorted(done.artifact.manifest.kept),
        4,
    )
    assert (accuracy.metric, accuracy.reference, accuracy.count) == ("accuracy", 1.0, 24)
    assert eb.verify(done.artifact).passed
    (row,) = lab.evaluate(done.artifact, items, "accuracy", model=model).rows
    assert (row.value, row.drop) == (accuracy.value, accuracy.drop)


def test_int8_keep_leaves_only_the_named_layers_in_float(
    model: nn.Module, items: list[Any], tmp_path: Path
) -> None:
    keep = ["node_conv2d_1", "node_conv2d_2"]
    done = deploy(model, items, tmp_path / "two", int8_keep=keep)
    assert done.artifact.manifest.kept == tuple(keep)
    graph = onnx.load(done.artifact.path / "model.onnx").graph
    made = {output: node.op_type for node in graph.node for output in node.output}
    floats = {
        node.name
        for node in graph.node
        if node.op_type == "Conv" and made.get(node.input[1]) != "DequantizeLinear"
    }
    assert floats == set(keep)
    every = deploy(model, items, tmp_path / "all", int8_keep=["Conv"])
    assert every.artifact.manifest.kept == ("node_conv2d", *keep)


def test_quantize_excludes_no_layer_of_an_accurate_engine(items: list[Any], tmp_path: Path) -> None:
    model = Net().eval()
    with torch.no_grad():
        model.wide.weight[0] /= 3000
        model.narrow.weight[:, 0] *= 3000
    steps: list[str] = []
    quantization = quantize(
        *(model, items, tmp_path / "out"),
        metrics="cosine",
        max_drop=0.01,
        watch=lambda step: steps.append(step.name),
    )
    assert (quantization.kept, quantization.layers) == ((), 0)
    assert set(steps) == {"quantize", "deploy"}


def test_quantize_fails_if_no_mix_of_precisions_is_accurate(
    model: nn.Module, tmp_path: Path
) -> None:
    items = [({"x": image}, 0) for image in IMAGES]
    with pytest.raises(NotVerifiedError, match="dB above noise"):
        quantize(
            model, items, tmp_path / "out", metrics="cosine", max_drop=0, verify={"rtol": 1e-5}
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        (
            {"int8_keep": ["Conv"], "params": {}},
            "'int8_keep' excludes layers from int8, but precision fp32 has no 8-bit layers",
            "--precision int8",
        ),
        (
            {"int8_keep": ["Conv", "Gemm"]},
            "--int8-keep excludes all 4 nodes, so that no node would run in 8 bits",
            "for fp32, leave out both --int8-keep and --precision",
        ),
        (
            {"int8_keep": ["Convv"]},
            "the engine computes no node or operator 'Convv' in 8 bits; ",
            "did you mean 'Conv'?",
        ),
    ],
)
def test_invalid_int8_keep_is_refused(
    model: nn.Module,
    items: list[Any],
    tmp_path: Path,
    given: dict[str, Any],
    message: str,
    hint: str | None,
) -> None:
    with pytest.raises(UsageError) as caught:
        deploy(model, items, tmp_path / "out", **given)
    assert message in str(caught.value)
    assert (hint or "") in (caught.value.hint or "")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"max_drop": -1}, "max_drop is -1, expected 0 or more", "--max-drop 0.01"),
        ({"metrics": "acuracy"}, "unknown metric 'acuracy'", "did you mean 'accuracy'?"),
        (
            {"params": {}},
            "quantize requires layers in 8 bits, but precision fp32",
            "--precision int8",
        ),
        ({"data": None}, "data", ""),
    ],
)
def test_quantize_refuses_invalid_arguments(
    model: nn.Module,
    items: list[Any],
    tmp_path: Path,
    given: dict[str, Any],
    message: str,
    hint: str,
) -> None:
    with pytest.raises(UsageError) as caught:
        quantize(
            model, items, tmp_path / "out", **{"metrics": "accuracy", "max_drop": 0.1, **given}
        )
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")
    assert not (tmp_path / "out").exists()


def test_quantize_does_not_overwrite_other_files(
    model: nn.Module, items: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").touch()
    with pytest.raises(ArtifactExistsError, match="exists and is not an artifact"):
        quantize(model, items, tmp_path / "out", metrics="accuracy", max_drop=0.1)


def test_quantize_refuses_an_onnx_file(model: nn.Module, items: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    eb.export(model, torch.from_numpy(IMAGES[0]), path=path)
    with pytest.raises(UsageError, match=r"net.onnx' is an ONNX file, expected a PyTorch model"):
        quantize(str(path), items, tmp_path / "out", metrics="cosine", max_drop=0.1)


@pytest.mark.slow
def test_sensitivity_and_quantize_run_on_the_command_line(
    cli: Run, here: Path, items: list[Any]
) -> None:
    (here / "net.py").write_text(
        f"import sys\nsys.path.insert(0, {str(here)!r})\n"
        "import torch\nfrom layers import Net\n\n"
        "def build():\n    return Net().eval(), torch.rand(1, 3, 12, 12)\n"
    )
    source = (
        "from __future__ import annotations\nimport torch\nfrom torch import nn\n\n"
        + __import__("inspect").getsource(Net)
    )
    (here / "layers.py").write_text(source)
    np.savez(here / "data.npz", x=IMAGES, target=[label for _, label in items])
    given = ("net.py:build", "--backend", "onnxruntime", "--precision", "int8")
    ran = cli("sensitivity", *given, "--data", "data.npz", "--json")
    assert ran.code == 0, ran.err
    nodes = [one["node"] for one in json.loads(ran.out)["nodes"]]
    assert sorted(nodes) == ["node_conv2d", "node_conv2d_1", "node_conv2d_2", "node_linear"]
    gate = ("--metric", "accuracy", "--max-drop", "0.01")
    ran = cli("quantize", *given, "--data", "data.npz", *gate, "--work-dir", "out")
    assert ran.code == 0, ran.err
    assert "accuracy           accuracy is 1, and 1 in PyTorch: a drop of 0 on 24 items" in ran.out
    assert "kept               node_conv2d" in ran.out
    assert "kept      node_conv2d" in cli("inspect", "out").out
