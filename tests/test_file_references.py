"""The reference of an ONNX file: what its operators mean at its opset, and when engines differ."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import torch
from onnx.parser import parse_model
from torch import nn

import enginebay as eb

from .conftest import derived

if TYPE_CHECKING:
    from pathlib import Path


def _write(path: Path, opset: int, graph: str, **weights: Any) -> Path:
    model = parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> graph {graph}')
    for name, values in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(values), name))
    onnx.save(model, path)
    return path


def _normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "ncnn"])
@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((1, 10, 2, 2), "<axis = 1>"),
        ((2, 3, 4), ""),
        ((1, 10, 1, 1), ""),
        ((1, 3, 4, 5), "<axis = 2>"),
        ((1, 3, 4), "<axis = -1>"),
    ],
)
@pytest.mark.parametrize("opset", [11, 9, 12])
@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
@pytest.mark.one_in(5)
def test_a_softmax_of_an_old_file_is_over_all_axes_from_one_on(
    operator: str, opset: int, shape: tuple[int, ...], attributes: str, backend: str, tmp_path: Path
) -> None:
    if opset < 11 and "-1" in attributes:
        pytest.skip("opset 9 has no negative axes")
    sizes = ",".join(map(str, shape))
    path = _write(
        tmp_path / "old.onnx",
        opset,
        f"(float[{sizes}] x) => (float[{sizes}] y) {{ z = Relu(x) y = {operator}{attributes}(z) }}",
    )
    x = _normal(*shape)
    deployed = eb.deploy(path, {"x": x}, backend=backend, work_dir=tmp_path / "out")
    with eb.load(tmp_path / "out") as wrapper:
        (found,) = wrapper({"x": x}).values()
    axis = {"": 1, "<axis = 1>": 1, "<axis = 2>": 2, "<axis = -1>": x.ndim - 1}[attributes]
    rows = torch.from_numpy(x).relu().reshape(*shape[:axis], -1)
    function = torch.softmax if operator == "Softmax" else torch.log_softmax
    expected = function(rows, -1).reshape(shape).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    assert deployed.verdict == "verified"


@pytest.mark.parametrize("opset", [12, 13, 17])
@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
@pytest.mark.one_in(2)
def test_a_norm_that_no_convolution_absorbs_is_verified_at_any_opset(
    backend: str, opset: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.BatchNorm2d(6), nn.Flatten()).eval()
    net[2].running_mean.uniform_(-1, 1)
    net[2].running_var.uniform_(0.5, 3)
    x = torch.randn(1, 3, 8, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is deprecated
        torch.onnx.export(
            net, (x,), tmp_path / "m.onnx", opset_version=opset, dynamo=False, input_names=["x"]
        )
    deployed = eb.deploy(tmp_path / "m.onnx", {"x": x}, backend=backend, work_dir=tmp_path / "out")
    assert deployed.verdict == "verified"


@pytest.mark.parametrize(
    ("backend", "verdict"), [("onnxruntime", "verified"), ("openvino", "mismatched")]
)
def test_an_engine_that_ignores_the_lengths_of_sequences_is_mismatched(
    backend: str, verdict: str, tmp_path: Path
) -> None:
    path = _write(
        tmp_path / "gru.onnx",
        15,
        "(float[t,b,4] x, int32[b] n) => (float[t,1,b,6] y) "
        '{ y = GRU<hidden_size = 6>(x, w, r, "", n) }',
        w=_normal(1, 18, 4),
        r=_normal(1, 18, 6) / 2,
    )
    inputs = {"x": _normal(9, 3, 4), "n": np.int32([9, 6, 4])}
    deployed = eb.deploy(path, inputs, backend="onnxruntime", work_dir=tmp_path / "out")
    assert deployed.verdict == "verified"
    with pytest.raises(eb.NotVerifiedError, match="mismatched"):
        eb.deploy(path, inputs, backend="openvino", work_dir=tmp_path / "ignored")


class Recurrent(nn.Module):
    """A convolution, and a layer in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 3, padding=1)
        self.lstm = nn.LSTM(8, 8, bidirectional=True, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.conv(x).relu().transpose(1, 2))[0])


@pytest.fixture(scope="module")
def eight_bits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that ONNX Runtime has quantised, with operators that only engines have."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    folder = tmp_path_factory.mktemp("eight_bits")
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is deprecated
        torch.onnx.export(
            Recurrent().eval(),
            (torch.randn(1, 4, 12),),
            folder / "float.onnx",
            opset_version=13,
            dynamo=False,
            input_names=["x"],
        )
        quantize_dynamic(folder / "float.onnx", folder / "m.onnx", weight_type=QuantType.QUInt8)
    return folder / "m.onnx"


def test_a_file_of_8_bits_is_judged_as_8_bits_by_a_second_engine(
    eight_bits: Path, tmp_path: Path
) -> None:
    x = {"x": _normal(1, 4, 12)}
    with pytest.warns(eb.VerdictWarning, match=r"a second engine, since .* 'DynamicQuantizeLSTM'"):
        deployed = eb.deploy(eight_bits, x, backend="onnxruntime", work_dir=tmp_path / "out")
    assert deployed.verdict == "verified"
    assert deployed.verification.reference == "openvino, a second engine"


def test_a_file_that_quantises_itself_may_run_in_8_bits(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "qdq.onnx",
        13,
        "(float[2,8] x) => (float[2,6] y) { q = QuantizeLinear(x, s, z) "
        "d = DequantizeLinear(q, s, z) v = DequantizeLinear(w, t) y = MatMul(d, v) }",
        s=np.float32(0.03),
        z=np.uint8(128),
        t=np.float32(0.02),
        # Half of the range: with all of it, ONNX Runtime saturates on x86 without VNNI.
        w=np.random.default_rng(0).integers(-64, 63, (8, 6), np.int8),
    )
    for backend in ("onnxruntime", "openvino"):
        deployed = eb.deploy(
            path, {"x": _normal(2, 8)}, backend=backend, work_dir=tmp_path / backend
        )
        assert deployed.verdict == "verified"
        assert deployed.verification.reference == "onnx's reference evaluator"


def test_a_file_with_weights_of_8_bits_is_exact_to_fp32(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "stored.onnx",
        17,
        "(float[2,8] x) => (float[2,6] y) { v = Cast<to = 1>(w) s = Mul(v, t) y = MatMul(x, s) }",
        t=np.float32(0.01),
        w=np.random.default_rng(0).integers(-128, 127, (8, 6), np.int8),
    )
    for backend in ("onnxruntime", "openvino"):
        deployed = eb.deploy(
            path, {"x": _normal(2, 8)}, backend=backend, work_dir=tmp_path / backend
        )
        assert deployed.verdict == "verified"
        assert max(each.rtol for each in deployed.verification.outputs) < 1e-3


def test_two_engines_that_differ_leave_a_file_unverified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = parse_model(
        '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> graph (float[2,4] x) '
        "=> (float[2,4] y) { y = com.microsoft.FastGelu(x) }"
    )
    onnx.save(model, tmp_path / "gelu.onnx")
    with derived("second", "def change(outputs): return [2 * y for y in outputs]\n"):
        monkeypatch.setenv("ENGINEBAY_BACKENDS", "onnxruntime,second")
        with pytest.raises(eb.NotVerifiedError) as caught:
            eb.deploy(
                tmp_path / "gelu.onnx",
                {"x": _normal(2, 4)},
                backend="onnxruntime",
                work_dir=tmp_path / "out",
            )
    assert caught.value.verdict.verdict == "unverified"
    reason = str(caught.value)
    assert reason.startswith("unverified: two engines differ, and neither is exact: ")
    assert "onnx's reference evaluator cannot run 'gelu.onnx'" in reason


def test_a_probe_of_a_file_that_rounding_decides_is_left_out(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "levels.onnx",
        17,
        "(float[4,333] x) => (float[4,333] y) { p = Mul(x, x) a = Add(p, guard) l = Log(a) "
        "m = ReduceMean<axes = [1]>(l) d = Sub(l, m) q = Mul(d, d) v = ReduceMean<axes = [1]>(q) "
        "s = Sqrt(v) t = Add(s, e) y = Div(d, t) }",
        guard=np.float32([2.0**-24]),
        e=np.float32([1e-5]),
    )
    # Of silence, all levels are equal, and the last bit of their mean decides.
    with pytest.warns(eb.VerdictWarning, match="rounding alone decides .* left out: zeros"):
        deployed = eb.deploy(
            path, {"x": _normal(4, 333)}, backend="onnxruntime", work_dir=tmp_path / "out"
        )
    assert deployed.verdict == "verified"


def test_a_file_in_half_precision_is_compared_with_exact_values(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    layers, weights = [], {}
    for number in range(10):
        size = 4 if number == 9 else 1
        kernel = rng.standard_normal((48, 48, 5)) * np.sqrt(2 / 240) * size
        weights[f"w{number}"] = kernel.astype(np.float16)
        layers.append(f"c{number} = Conv<pads = [2, 2]>(h{number}, w{number})")
        layers.append(f"h{number + 1} = Relu(c{number})")
    path = _write(
        tmp_path / "half.onnx",
        17,
        "(float[1,48,24] x) => (float16[1,48,24] y) { h0 = Cast<to = 10>(x) "
        f"{' '.join(layers)} y = Softmax<axis = 1>(c9) }}",
        **weights,
    )
    deployed = eb.deploy(
        path, {"x": _normal(1, 48, 24)}, backend="onnxruntime", work_dir=tmp_path / "out"
    )
    assert deployed.verdict == "verified"


def test_a_probe_that_the_reference_cannot_run_is_left_out(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "rows.onnx",
        13,
        "(float[n,21] x) => (float[n,21,8] y) { i = Cast<to = 6>(x) y = Gather(table, i) }",
        table=_normal(178, 8),
    )
    ids = np.random.default_rng(0).integers(0, 178, (6, 21)).astype(np.float32)
    deployed = eb.deploy(path, {"x": ids}, backend="onnxruntime", work_dir=tmp_path / "out")
    assert deployed.verdict == "verified"
    basis = deployed.verification.basis
    assert basis is not None
    assert any("out of bounds" in text for text in basis.dropped)
