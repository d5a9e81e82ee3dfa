"""Operators whose kernels are inexact are replaced in the graph, where it matters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import torch
from onnx.parser import parse_model
from torch import nn

import enginebay as eb
from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from pathlib import Path

X = np.linspace(-60, 20, 8, dtype=np.float32)


def write(path: Path, graph: str, opset: int = 17, functions: str = "", **weights: Any) -> Path:
    domains = f'"" : {opset}' + (', "f" : 1' if functions else "")
    model = parse_model(f"<ir_version: 8, opset_import: [{domains}]> g {graph} {functions}")
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
    for name, values in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(values), name))
    onnx.save(model, path)
    return path


def run(model: Path, feed: dict[str, Any], **params: Any) -> tuple[str, Any]:
    """What the artifact replaced, and its output."""
    folder = model.with_suffix("")
    with eb.load(
        eb.convert(model, backend="onnxruntime", work_dir=folder, params=params)
    ) as loaded:
        (found,) = loaded(feed).values()
        return loaded.receipt.details.get("replaced", ""), found


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


@pytest.mark.parametrize(
    "body",
    [
        "y = Sigmoid(x)",
        "a = Sigmoid(x) b = Unsqueeze(a, zero) y = Squeeze(b, zero)",
        "a = Sigmoid(x) y = Mul(a, one)",
        "a = Sigmoid(x) b = Sigmoid(big) y = Mul(a, b)",
        "a = Sigmoid(x) b = Greater(a, low) c = Cast<to = 1>(b) y = Mul(a, c)",
        "a = Sigmoid(x) b = Log(a) y = Exp(b)",
        "a = f.gate(x) y = Mul(a, one)",
        (
            "y = If(yes) <then_branch = t () => (float[8] a) { a = Sigmoid(x) }, else_branch = e "
            "() => (float[8] b) { b = Identity(x) }>"
        ),
    ],
)
@pytest.mark.parametrize("opset", [13, 17])
def test_a_sigmoid_of_a_file_is_exact_far_below_zero(body: str, opset: int, tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.onnx",
        f"(float[8] x) => (float[8] y) {{ {body} }}",
        opset,
        f'<domain: "f", opset_import: ["" : {opset}]> gate (x) => (y) {{ y = Sigmoid(x) }}',
        zero=np.array([0]),
        one=np.float32(1),
        big=np.float32(99),
        low=np.float32(0),
        yes=np.array(True),
    )
    replaced, found = run(path, {"x": X})
    assert replaced.startswith("Sigmoid ")
    np.testing.assert_allclose(found, sigmoid(X), rtol=1e-5)


@pytest.mark.parametrize(
    "body",
    [
        "c = Conv(x, w) a = Sigmoid(c) y = Mul(c, a)",
        "c = Conv(x, w) p = GlobalAveragePool(c) d = Conv(p, w) a = Sigmoid(d) y = Mul(a, c)",
        "c = Conv(x, w) d = Add(c, x) r = Mul(d, s) a = Sigmoid(r) y = Mul(d, a)",
        "c = Conv(x, w) p, q = Split<axis = 2>(c) a = Sigmoid(q) y = Mul(p, a)",
        "a = Sigmoid(x) q = QuantizeLinear(a, s) y = DequantizeLinear(q, s)",
    ],
)
def test_a_gate_of_features_keeps_its_operator(body: str, tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.onnx",
        f"(float[1, 2, 4, 4] x) => (float[a, b, c, d] y) {{ {body} }}",
        w=np.ones((2, 2, 1, 1), np.float32),
        s=np.float32(0.1),
    )
    run(path, {"x": np.ones((1, 2, 4, 4), np.float32)})
    assert (tmp_path / "m/model.onnx").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("dtype", ["float16", "double"])
def test_other_dtypes_keep_their_operator(dtype: str, tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", f"({dtype}[8] x) => ({dtype}[8] y) {{ y = Sigmoid(x) }}")
    run(path, {"x": X.astype(dtype)})
    assert (tmp_path / "m/model.onnx").read_bytes() == path.read_bytes()


def test_the_nodes_keep_the_name_of_the_replaced_one(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", "(float[8] x) => (float[8] y) { a = Neg(x) y = Sigmoid(a) }")
    run(path, {"x": X})
    names = [node.name for node in onnx.load(tmp_path / "m/model.onnx").graph.node]
    assert names == ["n0", "n1__one", "n1__negative", "n1__power", "n1__sum", "n1"]


def test_weights_outside_the_file_stay_there(tmp_path: Path) -> None:
    graph = "(float[1, 4] x) => (float[1, 8] y) { a = Gemm(x, w) y = Sigmoid(a) }"
    path = write(tmp_path / "m.onnx", graph, w=np.full((4, 8), -5, np.float32))
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    _, found = run(path, {"x": np.ones((1, 4), np.float32)})
    np.testing.assert_allclose(found, np.full((1, 8), np.exp(-20.0)), rtol=1e-5)
    assert (tmp_path / "m/w.bin").read_bytes() == (tmp_path / "w.bin").read_bytes()


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_scores_of_a_pytorch_model_are_exact(exporter: str, precision: str, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 1), nn.SiLU(), nn.Conv2d(4, 1, 1), nn.Sigmoid()).eval()
    nn.init.constant_(net[2].bias, -12.0)
    deployed = eb.deploy(
        net,
        torch.randn(1, 1, 8, 8),
        backend="onnxruntime",
        work_dir=tmp_path / "out",
        params={"precision": precision},
        export=eb.ExportOptions(exporter=exporter, input_names=["x"]),
        data=None if precision == "fp32" else [{"x": torch.randn(1, 1, 8, 8)} for _ in range(8)],
        verify=eb.VerifyOptions(allow_mismatch=precision == "int8"),  # the weights are random
    )
    assert precision == "int8" or deployed.verdict == "verified"
    assert deployed.receipt is not None
    assert deployed.receipt.details["replaced"] == "Sigmoid 1"


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path / "model.onnx", "(float[8] x) => (float[8] y) { y = Sigmoid(x) }")
    before = path.read_bytes()
    with pytest.raises(ConversionError) as caught:
        eb.get_backend("onnxruntime").to_backend(path, work_dir=str(tmp_path))
    assert str(caught.value) == (
        f"the file without inexact operators would overwrite the model to convert, '{path}'"
    )
    assert caught.value.hint == "use another --work-dir or --file-name"
    assert path.read_bytes() == before


def transform(x: Any, step: int, size: int, window: Any, onesided: bool) -> Any:
    frames = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), size, axis=1)[:, ::step]
    exact = np.fft.fft(frames * window)[..., : size // 2 + 1 if onesided else size]
    return np.stack([exact.real, exact.imag], -1)


@pytest.mark.parametrize("size", [400, 321, 6])
@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("dims", ["2, 2000, 1", "2, 2000", "b, t, 1", "b, t"])
@pytest.mark.parametrize("inputs", ["x, step, w", "x, step, w, n", "x, step, , n"])
@pytest.mark.one_in(6)
def test_the_transform_of_a_file_is_exact_for_every_length(
    size: int, onesided: bool, dims: str, inputs: str, tmp_path: Path
) -> None:
    window = np.hanning(size).astype(np.float32)
    path = write(
        tmp_path / "m.onnx",
        f"(float[{dims}] x) => (float[b, frames, bins, 2] y) "
        f"{{ y = STFT<onesided = {int(onesided)}>({inputs}) }}",
        step=np.array(160),
        w=window,
        n=np.array(size),
    )
    x = np.random.default_rng(0).standard_normal((2, 2000), np.float32)
    fed = x[..., None] if "1" in dims.split(", ") else x
    replaced, found = run(path, {"x": fed})
    assert replaced == "STFT 1"
    expected = transform(x, 160, size, window if "w" in inputs else 1.0, onesided)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize(
    "inputs", ["x, step, w", "x, step, v", "x, open, u", "z, step, u", "x, step, , m"]
)
def test_a_transform_that_is_exact_or_of_unknown_sizes_stays(inputs: str, tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.onnx",
        "(float[1, 9000, 1] x, float[1, 9000, 2] z, int64 open) => (float[b, f, n, 2] y) "
        f"{{ m = Neg(less) y = STFT<onesided = 0>({inputs}) }}",
        step=np.array(160),
        w=np.hanning(512).astype(np.float32),
        v=np.hanning(4095).astype(np.float32),
        u=np.hanning(400).astype(np.float32),
        less=np.array(-400),
    )
    feed = {"x": (1, 9000, 1), "z": (1, 9000, 2), "open": ()}
    run(path, {k: np.ones(v, np.int64 if k == "open" else np.float32) for k, v in feed.items()})
    assert (tmp_path / "m/model.onnx").read_bytes() == path.read_bytes()


def test_a_transform_of_a_pytorch_model_is_exact(tmp_path: Path) -> None:
    class Spectrum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("window", torch.hann_window(400))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found = torch.stft(x, 400, 160, window=self.window, return_complex=True)
            return torch.view_as_real(found).square().sum(-1)

    sound = torch.randn(1, 4000)
    deployed = eb.deploy(Spectrum().eval(), sound, backend="onnxruntime", work_dir=tmp_path / "out")
    assert deployed.verdict == "verified"
    assert deployed.receipt is not None
    assert deployed.receipt.details["replaced"] == "STFT 1"
