"""Our operators for onnx's evaluator agree with PyTorch, which knows nothing of ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx.parser import parse_model
from torch import nn

from enginebay.evaluator.onnx_evaluator import make_evaluator

if TYPE_CHECKING:
    from collections.abc import Callable


def _normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


class Case(NamedTuple):
    """A node, the opset of the file, its inputs, and the same in PyTorch."""

    node: str
    opset: int
    inputs: tuple[torch.Tensor, ...]
    torch: Callable[..., Any]


X = _normal(2, 3, 8, 6)
SIGNAL = _normal(2, 64)
SCALES = torch.tensor([1, 1, 1.7, 1.3])
NORM = (_normal(3), _normal(3) / 3, _normal(3), _normal(3).abs())


def _flat(function: Callable[..., torch.Tensor], axis: int = 1) -> Callable[..., torch.Tensor]:
    """Apply a function to all axes from one on together, as below opset 13."""
    return lambda x: function(x.reshape(*x.shape[:axis], -1).flatten(0, axis - 1), -1).view_as(x)


def _hardmax(x: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.zeros_like(x).scatter(axis, x.argmax(axis, keepdim=True), 1)


def _normalised(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, m: torch.Tensor, v: torch.Tensor
) -> torch.Tensor:
    return F.batch_norm(x, m, v, w, b)


def _spectrum(signal: torch.Tensor, step: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
    signal, size = signal.reshape(2, 64), len(window)
    found = torch.stft(signal, size, int(step), window=window, center=False, return_complex=True)
    return torch.view_as_real(found).transpose(1, 2)


CASES = [
    Case("BatchNormalization<momentum = 0.9>", 12, (X, *NORM), _normalised),
    Case("BatchNormalization<momentum = 0.9>", 9, (X, *NORM), _normalised),
    Case("BatchNormalization", 7, (X, *NORM), _normalised),
    Case("Softmax", 11, (X,), _flat(torch.softmax)),
    Case("Softmax<axis = 2>", 9, (X,), _flat(torch.softmax, 2)),
    Case("Softmax<axis = 1>", 13, (X,), lambda x: x.softmax(1)),
    Case("LogSoftmax", 11, (X,), _flat(torch.log_softmax)),
    Case("Hardmax", 11, (X,), _flat(_hardmax)),
    Case("LRN<size = 5>", 13, (_normal(2, 7, 4, 4),), lambda x: F.local_response_norm(x, 5)),
    Case("LpNormalization<axis = 1, p = 1>", 13, (X,), lambda x: F.normalize(x, 1, 1)),
    Case("Squeeze<axes = [2, 0]>", 11, (_normal(1, 3, 1, 2),), lambda x: x.squeeze((0, 2))),
    Case("Unsqueeze<axes = [3, 0]>", 11, (_normal(2, 3),), lambda x: x[None, ..., None]),
    Case("Pad<pads = [0, 0, -1, 2, 0, 0, 1, -2]>", 2, (X,), lambda x: F.pad(x, (2, -2, -1, 1))),
    Case(
        "OneHot",
        11,
        (torch.tensor([2, 0, -1]), torch.tensor([3]), torch.tensor([0.0, 1.0])),
        lambda x, *_: F.one_hot(x % 3, 3).float(),
    ),
    Case(
        'GridSample<mode = "bilinear", padding_mode = "border">',
        16,
        (X, _normal(2, 4, 3, 2)),
        lambda x, at: F.grid_sample(x, at, padding_mode="border", align_corners=False),
    ),
    Case(
        'Resize<mode = "linear", coordinate_transformation_mode = "align_corners">',
        13,
        (X, torch.tensor([]), SCALES),
        lambda x, *_: F.interpolate(x, (13, 7), mode="bilinear", align_corners=True),
    ),
    Case(
        'Upsample<mode = "nearest">',
        9,
        (X, SCALES),
        lambda x, _: F.interpolate(x, scale_factor=(1.7, 1.3)),
    ),
    Case(
        'Resize<mode = "nearest">',
        10,
        (X, SCALES),
        lambda x, _: F.interpolate(x, scale_factor=(1.7, 1.3)),
    ),
    # 0.7 in float32 is a little less than 0.7, and 1/3 a little more than a third.
    Case(
        'Resize<mode = "nearest", nearest_mode = "floor", '
        'coordinate_transformation_mode = "asymmetric">',
        13,
        (_normal(1, 2, 10, 15), torch.tensor([]), torch.tensor([1, 1, 0.7, 1 / 3])),
        lambda x, *_: F.interpolate(x, (7, 5)),
    ),
    Case(
        'Resize<mode = "linear">',
        13,
        (_normal(1, 2, 10, 100), torch.tensor([]), torch.tensor([1, 1, 0.7, 0.29])),
        lambda x, *_: F.interpolate(x, (7, 29), mode="bilinear", align_corners=False),
    ),
    Case(
        "QuantizeLinear",
        13,
        (_normal(9) * 1e12, torch.tensor(0.5), torch.tensor(3, dtype=torch.int8)),
        lambda x, *_: (x / 0.5 + 3).clamp(-128, 127).to(torch.int8),
    ),
    Case(
        "DequantizeLinear<axis = 0>",
        13,
        (
            torch.tensor([[-5, 7], [9, 100]], dtype=torch.int8),
            torch.tensor([0.5, 2.0]),
            torch.tensor([1, -1], dtype=torch.int8),
        ),
        lambda x, scale, zero: (x.float() - zero[:, None]) * scale[:, None],
    ),
    *(
        Case("STFT", opset, (signal, torch.tensor(8), torch.hann_window(16)), _spectrum)
        for opset in (17, 21)
        for signal in (SIGNAL, SIGNAL[..., None])
    ),
    Case(
        "Conv<dilations = [3, 2], pads = [1, 2, 1, 2], strides = [2, 1], group = 3>",
        17,
        (X, _normal(6, 1, 3, 2), _normal(6)),
        lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 2), (3, 2), 3),
    ),
    Case(
        "Conv<pads = [1, 1, 1, 1], group = 3>",  # some planes after the others
        17,
        (_normal(2, 3, 300, 300), _normal(3, 1, 3, 3)),
        lambda x, w: F.conv2d(x, w, padding=1, groups=3),
    ),
    Case(
        "Conv<pads = [1, 1, 1, 1]>",  # some elements of the kernel after the others
        17,
        (_normal(2, 6, 400, 400), _normal(2, 6, 3, 3)),
        lambda x, w: F.conv2d(x, w, padding=1),
    ),
    Case("Erf", 13, (_normal(3, 50000) * 3,), torch.erf),
    Case("Sigmoid", 13, (_normal(3, 50000) * 50,), torch.sigmoid),
    Case(
        'ScatterElements<axis = 1, reduction = "add">',
        16,
        (_normal(2, 5), torch.tensor([[1, -1, 1], [0, 0, -5]]), _normal(2, 3)),
        lambda x, indices, updates: x.scatter_add(1, indices % 5, updates),
    ),
    Case(
        "ScatterElements",
        13,
        (_normal(5, 3), torch.tensor([[1, -1, 1], [0, 0, -4]]), _normal(2, 3)),
        lambda x, indices, updates: x.scatter(0, indices % 5, updates),
    ),
    Case(
        "ConvTranspose<strides = [2, 2], group = 3>",
        17,
        (X, _normal(3, 2, 3, 3), _normal(6)),
        lambda x, w, b: F.conv_transpose2d(x, w, b, 2, groups=3),
    ),
    Case(
        "MaxPool<kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1], ceil_mode = 1>",
        12,
        (X,),
        lambda x: F.max_pool2d(F.pad(x, (0, 1), value=-torch.inf), (3, 2), (2, 1), (1, 0), 1, True),
    ),
    *(
        Case(
            f"AveragePool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], "
            f"ceil_mode = 1, count_include_pad = {int(included)}>",
            19,
            (X,),
            lambda x, included=included: F.avg_pool2d(x, 3, 2, 1, True, included),
        )
        for included in (True, False)
    ),
    Case(
        "LpPool<kernel_shape = [2, 2], strides = [2, 2], p = 2>",
        18,
        (X,),
        lambda x: F.lp_pool2d(x, 2, 2),
    ),
    Case("GlobalMaxPool", 13, (_normal(2, 3, 4),), lambda x: x.amax(-1, keepdim=True)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.node.split('<')[0]}-{case.opset}")
def test_operator_agrees_with_torch(case: Case) -> None:
    inputs = {f"x{i}": each.numpy() for i, each in enumerate(case.inputs)}
    text = ", ".join(f"{_type(each)} {name}" for name, each in inputs.items())
    kind, _, attributes = case.node.partition("<")
    call = f"{kind}{'<' if attributes else ''}{attributes} ({', '.join(inputs)})"
    model = parse_model(
        f'<ir_version: 8, opset_import: ["" : {case.opset}]> graph ({text}) => (float y) '
        f"{{ y = {call} }}"
    )
    (found,) = make_evaluator(model).run(None, inputs)
    expected = case.torch(*case.inputs).numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def _type(array: Any) -> str:
    names = {"float32": "float"}
    return f"{names.get(str(array.dtype), array.dtype)}[{','.join(map(str, array.shape))}]"


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", ["GRU", "LSTM", "RNN"])
def test_recurrent_layer_ends_with_each_sequence(kind: str, bidirectional: bool) -> None:
    torch.manual_seed(0)
    layer = getattr(nn, kind)(4, 6, bidirectional=bidirectional)
    x, lengths = torch.randn(5, 3, 4), torch.tensor([5, 1, 3])
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    with torch.no_grad():
        result, state = layer(packed)
        expected = nn.utils.rnn.pad_packed_sequence(result)[0]
    count = 2 if bidirectional else 1
    # The order of the gates: PyTorch's GRU has reset, update, new; ONNX's LSTM input, output, …
    order = {"GRU": [1, 0, 2], "LSTM": [0, 3, 1, 2], "RNN": [0]}[kind]

    def stacked(name: str) -> Any:
        rows = [
            getattr(layer, f"{name}_l0{suffix}").detach().chunk(len(order))
            for suffix in ("", "_reverse")[:count]
        ]
        return torch.stack([torch.cat([row[i] for i in order]) for row in rows])

    weights = {
        "w": stacked("weight_ih"),
        "r": stacked("weight_hh"),
        "b": torch.cat([stacked("bias_ih"), stacked("bias_hh")], 1),
        "n": lengths.to(torch.int32),
    }
    extra = ", linear_before_reset = 1" if kind == "GRU" else ""
    direction = "bidirectional" if bidirectional else "forward"
    model = parse_model(
        f'<ir_version: 8, opset_import: ["" : 14]> graph (float[5,3,4] x) => (float y, float h) '
        f'{{ y, h = {kind}<hidden_size = 6, direction = "{direction}"{extra}> (x, w, r, b, n) }}'
    )
    for name, each in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(each.numpy(), name))
    found, last = make_evaluator(model).run(None, {"x": x.numpy()})
    flat = found.transpose(0, 2, 1, 3).reshape(5, 3, -1)
    np.testing.assert_allclose(flat, expected.numpy(), rtol=1e-4, atol=1e-5)
    hidden = state[0] if kind == "LSTM" else state
    np.testing.assert_allclose(last, hidden.numpy(), rtol=1e-4, atol=1e-5)


def test_erf_is_exact_in_double_precision() -> None:
    model = parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> graph (double[n] x) => (double[n] y) '
        "{ y = Erf(x) }"
    )
    ends = torch.tensor([0.0, torch.inf, -torch.inf, torch.nan, 1e-30])
    x = torch.cat([torch.linspace(-8, 8, 100_001, dtype=torch.float64), ends])
    (found,) = make_evaluator(model).run(None, {"x": x.numpy()})
    np.testing.assert_allclose(found, torch.erf(x).numpy(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("attribute", ["clip = 0.3", 'activations = ["HardSigmoid", "Tanh"]'])
def test_what_onnx_ignores_of_a_recurrent_layer_is_refused(attribute: str) -> None:
    model = parse_model(
        '<ir_version: 8, opset_import: ["" : 14]> graph '
        "(float[5,3,4] x, float[1,18,4] w, float[1,18,6] r) => (float y) "
        f"{{ y = GRU<hidden_size = 6, {attribute}> (x, w, r) }}"
    )
    given = {"x": np.ones((5, 3, 4), np.float32), "w": np.ones((1, 18, 4), np.float32)}
    with pytest.raises(NotImplementedError, match="onnx ignores"):
        make_evaluator(model).run(None, {**given, "r": np.ones((1, 18, 6), np.float32)})


def test_dilated_convolution_needs_no_memory_for_zeros() -> None:
    import tracemalloc

    model = parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> graph (float[1,16,9000] x, float[16,16,3] w) '
        "=> (float y) { y = Conv<dilations = [2048], pads = [2048, 2048]> (x, w) }"
    )
    x, weight = _normal(1, 16, 9000), _normal(16, 16, 3)
    evaluator = make_evaluator(model)
    tracemalloc.start()
    (found,) = evaluator.run(None, {"x": x.numpy(), "w": weight.numpy()})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * x.numpy().nbytes  # onnx: a column of 4097 for each element
    expected = F.conv1d(x, weight, padding=2048, dilation=2048)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)
