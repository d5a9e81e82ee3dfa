"""Q/DQ nodes as TensorRT wants them, with numbers that ONNX Runtime computes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, numpy_helper

import enginebay as eb
from enginebay.errors import ConversionError
from enginebay_tensorrt.quantize import quantize

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two convolutions and a linear layer as an ONNX file."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)),
    )
    path = tmp_path_factory.mktemp("net") / "m.onnx"
    eb.export(
        model.eval(),
        torch.randn(1, 3, 16, 16),
        path=path,
        options=eb.ExportOptions(input_names=["x"]),
    )
    return path


def samples(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal((1, 3, 16, 16)).astype(np.float32)} for _ in range(count)]


def outputs(path: Path, feed: dict[str, Any]) -> Any:
    options = ort.SessionOptions()
    # Fused, fp8's Q/DQ becomes an operator that has no kernel.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options).run(None, feed)[0]


@pytest.mark.parametrize(
    ("precision", "kind"),
    [("int8", TensorProto.INT8), ("fp8", TensorProto.FLOAT8E4M3FN)],
)
def test_nodes_follow_the_rules_of_explicit_quantisation(
    net: Path, tmp_path: Path, precision: Any, kind: int
) -> None:
    target = tmp_path / "q.onnx"
    quantize(net, target, samples(16), precision)
    graph = onnx.load(target).graph
    weights = {each.name: each for each in graph.initializer}
    quantised = [each for each in graph.node if each.op_type == "QuantizeLinear"]
    assert len(quantised) == 6  # the input and the weights of three layers
    for each in quantised:
        zero = weights[each.input[2]]
        assert zero.data_type == kind
        assert not numpy_helper.to_array(zero).astype(np.float32).any()
        is_weight = each.input[0] in weights
        per_channel = bool(weights[each.input[1]].dims)
        assert per_channel == (is_weight and precision == "int8")
    made = {each.output[0]: each for each in graph.node}
    for each in graph.node:
        if each.op_type in ("Conv", "Gemm"):
            assert {made[name].op_type for name in each.input[:2]} == {"DequantizeLinear"}
            assert each.input[2] in weights  # the bias
            assert weights[each.input[2]].data_type == TensorProto.FLOAT
    wanted, found = outputs(net, samples(1)[0]), outputs(target, samples(1)[0])
    scale = np.abs(wanted).max()
    assert 1e-5 * scale < np.abs(found - wanted).max() < 0.1 * scale


def test_the_root_logger_is_not_configured(net: Path, tmp_path: Path) -> None:
    code = (
        "import logging, sys, numpy as np\n"
        "from pathlib import Path\n"
        "from enginebay_tensorrt.quantize import quantize\n"
        "x = [{'x': np.ones((1, 3, 16, 16), np.float32)}]\n"
        "quantize(Path(sys.argv[1]), Path(sys.argv[2]), x, 'int8')\n"
        "print(logging.getLogger().handlers)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, net, tmp_path / "q.onnx"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (ran.stdout.strip(), ran.stderr) == ("[]", "")


@pytest.mark.parametrize("precision", ["int8", "fp8"])
def test_constant_values_get_a_positive_scale(net: Path, tmp_path: Path, precision: Any) -> None:
    target = tmp_path / "q.onnx"
    quantize(net, target, [{"x": np.ones((1, 3, 16, 16), np.float32)}] * 16, precision)
    graph = onnx.load(target).graph
    weights = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    scales = [weights[n.input[1]] for n in graph.node if n.op_type == "QuantizeLinear"]
    assert all((scale > 0).all() for scale in scales)  # TensorRT refuses 0
    feed = {"x": np.ones((1, 3, 16, 16), np.float32)}
    wanted, found = outputs(net, feed), outputs(target, feed)
    assert np.abs(found - wanted).max() < 0.1 * np.abs(wanted).max()


def test_nothing_to_quantise(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "relu.onnx"
    eb.export(
        torch.nn.ReLU(),
        torch.ones(1, 3, 16, 16),
        path=path,
        options=eb.ExportOptions(input_names=["x"]),
    )
    with pytest.raises(ConversionError) as caught:
        quantize(path, tmp_path / "q.onnx", samples(1), "int8")
    assert str(caught.value) == (
        "'relu.onnx' has no nodes to quantise: expected one of Conv, ConvTranspose, MatMul, Gemm"
    )
