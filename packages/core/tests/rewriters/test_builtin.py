"""Each built-in rewriter is needed: without it an export fails, or its outputs are wrong."""

from __future__ import annotations

import copy
import functools
import math
from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F
from packages.core.tests.rewriting.contexts import rewrite
from torch import nn

from enginebay.errors import ExportError
from enginebay_rewriters.builtin import builtin_rewriters


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y=None, z=None, m=None):
        return self.function(*(each for each in (x, y, z, m) if each is not None))


def rand(*sizes):
    return torch.rand(*sizes, generator=torch.Generator().manual_seed(0)) - 0.5


INF = math.inf
HALF_HIDDEN = torch.tensor([[False] * 5, [True] * 5, [True, False] * 2 + [True], [True] * 5])
QKV = (rand(1, 2, 4, 8), rand(1, 2, 5, 8), rand(1, 2, 5, 8))
attention = F.scaled_dot_product_attention
TOWARDS_ZERO = (  # the negative remainder, which is exact in float32
    lambda x: torch.div(x, 5, rounding_mode="trunc") * 5 - x,
    lambda x: x.div(3 * torch.ones_like(x), rounding_mode="trunc") * 3 - x,
)
DEEPCOPY = "torch.Tensor.__deepcopy__"
EXPERTS = torch.tensor([0.0, 0, 2, 2, 2, 1, 5, -1])
GROUPS = (
    lambda rows, matrices, ends: F.grouped_mm(rows, matrices.transpose(1, 2), offs=ends),
    (rand(7, 8), rand(3, 8, 8), torch.tensor([2, 2, 7], dtype=torch.int32)),
    "torch.nn.functional.grouped_mm",
)


WORDS = torch.tensor([[1, 0, 5], [0, 0, 0]])
BAGS = "torch.nn.functional.embedding_bag"
pad_bags = functools.partial(F.embedding_bag, mode="max", padding_idx=0)


class Projected(nn.Module):
    """An LSTM with projections that returns its output, its hidden state or its cell state."""

    def __init__(self, result: int, **options):
        super().__init__()
        self.result = result
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.lstm = nn.LSTM(4, 6, proj_size=3, **options)

    def forward(self, x, hidden=None, cell=None):
        output, states = self.lstm(x, None if hidden is None else (hidden, cell))
        return (output, *states)[self.result]


class Packed(nn.Module):
    """A GRU over sequences of different lengths; the longest may be as long as the input."""

    def __init__(self, **options):
        super().__init__()
        self.options = {"batch_first": True, **options}
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.gru = nn.GRU(4, 6, batch_first=True)

    def forward(self, x, lengths):
        rnn = nn.utils.rnn
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return rnn.pad_packed_sequence(self.gru(packed)[0], **self.options)[0]


UNPACKED = "torch.nn.utils.rnn.pad_packed_sequence"
DEEP = {"num_layers": 2, "bidirectional": True, "batch_first": True, "bias": False}
# torch warns at the first call in a process that oneDNN does not support projections.
WITHOUT_ONEDNN = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported")
PROJECTED = (
    (Projected(0), (rand(5, 2, 4),)),
    (Projected(1, **DEEP), (rand(2, 5, 4), rand(4, 2, 3), rand(4, 2, 6))),
    (Projected(2, **DEEP), (rand(2, 5, 4), rand(4, 2, 3), rand(4, 2, 6))),
)


def angles(positions):
    """Compute the angles of rotary embeddings, whose broadcasting the exporter gets wrong."""
    frequencies = FREQUENCIES[None, :, None].expand(positions.shape[0], -1, 1)
    return (frequencies @ positions[:, None]).transpose(1, 2)


FREQUENCIES = rand(4)
FAR = torch.tensor([-1000.0, -100, -20, -1, 0, 1, 100])
NEAR_AND_FAR = (
    torch.tensor([0.0, 100, 1000, -1000, -100, 20, INF, -INF, INF, -INF, 3e38]),
    torch.tensor([0.0, 1, 999, -1001, 0, 20.5, INF, -INF, -INF, 5, -3e38]),
)
CROSS_ENTROPY = "torch.nn.functional.binary_cross_entropy_with_logits"
SUMS = (
    (torch.logaddexp, "torch.logaddexp"),
    (torch.logaddexp2, "torch.logaddexp2"),
    (lambda x, y: x.logaddexp(y), "torch.Tensor.logaddexp"),
    (lambda x, y: x.logaddexp2(y), "torch.Tensor.logaddexp2"),
)
POOL = "torch.nn.functional.avg_pool"
SIGNAL, IMAGE, VOLUME = rand(3, 8), rand(3, 8, 6), rand(3, 8, 6, 4)
UNBATCHED = (
    ("max_pool1d", nn.MaxPool1d(3, 2, 1), SIGNAL),
    ("max_pool2d", nn.MaxPool2d(3, 2, 1, ceil_mode=True), IMAGE),
    ("max_pool3d", nn.MaxPool3d(2), VOLUME),
    ("max_pool1d_with_indices", lambda x: F.max_pool1d(x, 2, return_indices=True)[1], SIGNAL),
    ("max_pool2d_with_indices", lambda x: F.max_pool2d(x, 2, return_indices=True)[1], IMAGE),
    ("max_pool3d_with_indices", lambda x: F.max_pool3d(x, 2, return_indices=True)[1], VOLUME),
    ("avg_pool1d", nn.AvgPool1d(3, 2, 1), SIGNAL),
    ("avg_pool2d", nn.AvgPool2d(3, 2, 1), IMAGE),
    ("avg_pool3d", nn.AvgPool3d(2), VOLUME),
    ("adaptive_avg_pool1d", nn.AdaptiveAvgPool1d(1), SIGNAL),
    ("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d(1), IMAGE),
    ("adaptive_avg_pool3d", nn.AdaptiveAvgPool3d(2), VOLUME),
    ("adaptive_max_pool1d", nn.AdaptiveMaxPool1d(4), SIGNAL),
    ("adaptive_max_pool2d", nn.AdaptiveMaxPool2d((4, 2)), IMAGE),
    ("adaptive_max_pool3d", nn.AdaptiveMaxPool3d(2), VOLUME),
    ("pixel_shuffle", nn.PixelShuffle(2), rand(8, 3, 4)),
    ("pixel_unshuffle", nn.PixelUnshuffle(2), rand(2, 6, 4)),
    ("im2col", nn.Unfold((2, 3), padding=1), IMAGE),
    ("col2im", nn.Fold((4, 5), (2, 3)), rand(12, 9)),
    # Circular padding of two dimensions ends the process.
    ("pad", lambda x: F.pad(x, (2, 1), mode="circular"), SIGNAL),
)
FALLBACK = "torch.ops.transformers.grouped_mm_fallback"


@functools.cache
def fallback():
    """Return a copy of the operator that transformers puts in place of ``grouped_mm``."""

    def rows(x, matrices, offs):
        return x.new_empty(x.shape[0], matrices.shape[2])

    @torch.library.custom_op(
        "transformers::grouped_mm_fallback",
        mutates_args=(),
        schema="(Tensor input, Tensor weight, Tensor offs) -> Tensor",
    )
    def grouped(x, matrices, offs):
        return F.grouped_mm(x, matrices, offs=offs)

    grouped.register_fake(rows)
    return torch.ops.transformers.grouped_mm_fallback


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("exporter", "function", "args", "name"),
    [
        (
            "torchscript",
            lambda x: F.adaptive_avg_pool2d(x, (3, None)),
            (rand(1, 2, 7, 5),),
            "torch.nn.functional.adaptive_avg_pool2d",
        ),
        (
            "torchscript",
            lambda x: F.adaptive_avg_pool2d(x, 5),
            (rand(2, 3, 3),),
            "torch.nn.functional.adaptive_avg_pool2d",
        ),
        (
            "torchscript",
            nn.AdaptiveAvgPool1d(3),
            (rand(1, 2, 7),),
            "torch.nn.functional.adaptive_avg_pool1d",
        ),
        (
            "torchscript",
            lambda x: F.interpolate(x, size=(3, 3), mode="area"),
            (rand(1, 2, 7, 7),),
            "torch.nn.functional.adaptive_avg_pool2d",
        ),
        ("torchscript", lambda x: x.any(), (rand(3, 4),), "torch.Tensor.any"),
        ("torchscript", lambda x: x.all(1), (rand(3, 4),), "torch.Tensor.all"),
        (
            "torchscript",
            lambda x: torch.any(x, -1, keepdim=True),
            (rand(3, 4).half(),),
            "torch.any",
        ),
        ("torchscript", torch.all, (rand(3, 4).half(),), "torch.all"),
        ("dynamo", torch.any, (torch.tensor([0, 3], dtype=torch.uint8),), "torch.any"),
        ("dynamo", attention, [each[:, 0] for each in QKV], "attention"),
        ("dynamo", attention, [each[0, 0] for each in QKV], "attention"),
        ("dynamo", attention, [torch.stack([each, each]) for each in QKV], "attention"),
        (
            "dynamo",
            lambda q, k, v, m: attention(q, k, v, attn_mask=m),
            (*QKV, HALF_HIDDEN),
            "attention",
        ),
        (
            "dynamo",
            lambda q, k, v, m: attention(q, k, v, attn_mask=m),
            (*QKV, torch.where(HALF_HIDDEN, 0, -INF)),
            "attention",
        ),
        (
            "torchscript",
            lambda q, k, v, m: attention(q, k, v, attn_mask=m),
            (*QKV, torch.where(HALF_HIDDEN, 0, -INF)),
            "attention",
        ),
        (
            "torchscript",
            lambda q, k, v: attention(q, k, v, enable_gqa=True),
            (rand(1, 4, 4, 8), *QKV[1:]),
            "attention",
        ),
        (
            "torchscript",
            lambda q, k, v: attention(q, k, v, None, 0.0, True),
            [each.half() for each in QKV],
            "attention",
        ),
        (
            "torchscript",
            lambda q, k, v, m: attention(q, k, v, m),
            [*(each.half() for each in QKV), HALF_HIDDEN],
            "attention",
        ),
        ("torchscript", lambda x: torch.zeros(2, 3).copy_(x) + 1, (rand(3),), "copy"),
        ("dynamo", lambda x: torch.zeros(2, 3).copy_(x) + 1, (rand(3),), "copy"),
        ("torchscript", lambda x: torch.roll(x, 3), (rand(4, 5),), "torch.roll"),
        ("torchscript", lambda x: x.roll(7, 0), (rand(4, 5),), "torch.Tensor.roll"),
        ("torchscript", lambda x: torch.roll(x, (-9, 1), (0, -1)), (rand(4, 5),), "torch.roll"),
        (
            "torchscript",
            lambda x: x.permute(0, -1, -2) + 0,
            (rand(2, 3, 4),),
            "torch.Tensor.permute",
        ),
        (
            "torchscript",
            lambda x: torch.permute(x, (-1, 0, 1)) + 0,
            (rand(2, 3, 4),),
            "torch.permute",
        ),
        (
            "torchscript",
            lambda x: x.transpose(0, 1).as_strided((3, 4), (2, 1)) + 0,
            (rand(4, 5),),
            "torch.Tensor.as_strided",
        ),
        (
            "torchscript",
            lambda x: torch.as_strided(x.permute(2, 0, 1), (2, 3), (7, 2), 3) * 2,
            (rand(2, 3, 4),),
            "torch.as_strided",
        ),
        *(
            (exporter, lambda x, copied=copied: copied(x * 2).add_(1) + x, (rand(2, 3),), DEEPCOPY)
            for exporter in ("dynamo", "torchscript")
            for copied in (copy.deepcopy, lambda x: copy.deepcopy([{"x": x}, x])[1])
        ),
        ("torchscript", lambda x: (x > 0).cumsum(-1), (rand(2, 5),), "torch.Tensor.cumsum"),
        (
            "torchscript",
            lambda x: torch.cumsum(x, dim=0),
            (torch.arange(5, dtype=torch.int32),),
            "torch.cumsum",
        ),
        (
            "torchscript",
            lambda x: angles(x).repeat_interleave(2, dim=-1),
            (rand(1, 12),),
            "torch.Tensor.repeat_interleave",
        ),
        ("torchscript", lambda x: x.diff(), (rand(2, 5),), "torch.Tensor.diff"),
        (
            "torchscript",
            lambda x, y: torch.diff(x, 2, 0, prepend=y),
            (torch.arange(6).view(3, 2) ** 2, torch.arange(4).view(2, 2)),
            "torch.diff",
        ),
        *(
            ("dynamo", divide, (torch.arange(-4, 5) * 2**25 + 3,), "aten.div.Tensor_mode")
            for divide in TOWARDS_ZERO
        ),
        ("torchscript", lambda x: torch.histc(x, 4, -0.5, 0.5), (rand(40),), "torch.histc"),
        ("torchscript", lambda x: x.histc(bins=3, min=0, max=2), (EXPERTS,), "torch.Tensor.histc"),
        ("torchscript", pad_bags, (WORDS, rand(6, 4)), BAGS),
        ("dynamo", torch.cov, (rand(3, 5),), "torch.cov"),
        ("dynamo", lambda x: x.cov(correction=0), (rand(5),), "torch.Tensor.cov"),
        ("dynamo", torch.corrcoef, (rand(3, 5),), "torch.corrcoef"),
        ("dynamo", lambda x: x.corrcoef(), (rand(5),), "torch.Tensor.corrcoef"),
        ("torchscript", torch.cov, (rand(3, 5),), "torch.cov"),
        ("torchscript", lambda x: x.corrcoef(), (rand(3, 5),), "torch.Tensor.corrcoef"),
        ("dynamo", *GROUPS),
        ("torchscript", *GROUPS),
        ("dynamo", lambda *args: fallback()(*args), GROUPS[1], FALLBACK),
        ("torchscript", lambda x: x.mT + 0, (rand(2, 3, 4),), "torch.Tensor.mT"),
        ("torchscript", lambda x: x.mH + 0, (rand(2, 3, 4),), "torch.Tensor.mH"),
        ("torchscript", lambda x: x.adjoint() + 0, (rand(2, 3, 4),), "torch.Tensor.adjoint"),
        ("torchscript", lambda x: torch.adjoint(x) + 0, (rand(2, 3, 4),), "torch.adjoint"),
        ("torchscript", lambda x: x.unfold(-2, 3, 2), (rand(2, 7, 4),), "torch.Tensor.unfold"),
        ("torchscript", lambda x: x.unfold(-1, 3, 1), (rand(2, 7, 4),), "torch.Tensor.unfold"),
        (
            "torchscript",
            lambda x, y: F.fold(x, y.shape[-2:], (2, 3), padding=(0, 1), stride=(1, 2)) + y,
            (rand(1, 12, 15), rand(1, 6, 5)),
            "col2im",
        ),
        *(
            (exporter, functools.partial(F.avg_pool2d, **given), (rand(1, 2, 6, 7),), POOL + "2d")
            for exporter in ("dynamo", "torchscript")
            for given in (
                {"kernel_size": 2, "divisor_override": 3},
                {"kernel_size": (3, 2), "padding": 1, "ceil_mode": True, "divisor_override": 5},
            )
        ),
        (
            "torchscript",
            lambda x: F.avg_pool3d(x, (1, 2, 3), divisor_override=4),
            (rand(1, 2, 3, 4, 6),),
            POOL + "3d",
        ),
        (
            "torchscript",
            lambda x: torch.linspace(0.5, x.shape[1] - 0.5, x.shape[1], dtype=x.dtype) + x,
            (rand(1, 6),),
            "torch.linspace",
        ),
        *(("dynamo", function, NEAR_AND_FAR, name) for function, name in SUMS[:2]),
        *(("torchscript", function, NEAR_AND_FAR, name) for function, name in SUMS),
        *(
            (
                "torchscript",
                functools.partial(F.binary_cross_entropy_with_logits, **options),
                (FAR, torch.linspace(0, 1, 7)),
                CROSS_ENTROPY,
            )
            for options in (
                {"reduction": "none"},
                {"weight": torch.arange(7.0), "pos_weight": torch.ones(7) / 2},
                {"reduction": "sum"},
            )
        ),
        ("dynamo", F.logsigmoid, (FAR,), "log_sigmoid"),
        ("torchscript", F.logsigmoid, (FAR,), "log_sigmoid"),
        ("dynamo", lambda x: x + (x > 9)._is_all_true(), (rand(3),), "aten._is_all_true"),
        ("dynamo", lambda x: x + (x < 9)._is_all_true(), (rand(3),), "aten._is_all_true"),
        ("dynamo", lambda x: x.squeeze(1) + 0, (rand(1, 4, 1),), "torch.Tensor.squeeze"),
        ("torchscript", lambda x: torch.squeeze(x, (0, 2)), (rand(1, 4, 1),), "torch.squeeze"),
        *(("torchscript", function, (x,), name) for name, function, x in UNBATCHED),
        *(
            pytest.param(exporter, module, args, "torch.lstm", marks=WITHOUT_ONEDNN)
            for module, args in PROJECTED
            for exporter in ("dynamo", "torchscript")
        ),
        *(
            ("torchscript", Packed(**options), (rand(2, 5, 4), torch.tensor([3, 4])), UNPACKED)
            for options in (
                {},
                {"batch_first": False},
                {"padding_value": -1.0},
                {"padding_value": 2.0, "total_length": 5},
            )
        ),
    ],
)
@pytest.mark.skipif(
    find_spec("onnxruntime") is None,
    reason="its target is ONNX Runtime: the session onnxruntime runs this file too",
)
def test_operators_export_correctly_only_with_rewriters(export, exporter, function, args, name):
    name = "torch.nn.functional.scaled_dot_product_attention" if name == "attention" else name
    model, args = Model(function), tuple(args)
    expected = model(*args)
    rewritten = export(model, args, exporter=exporter, builtin=True)
    assert same(rewritten.run_on_target(*args)[0], expected)
    assert rewritten.report.fired[name] >= 1
    try:
        plain = export(model, args, exporter=exporter).run_on_target(*args)[0]
    except Exception:
        return
    assert not same(plain, expected)


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (attention, QKV),
        (attention, [each[0] for each in QKV]),
        (lambda q, k, v: attention(q, k, v, None, 0.0, True), QKV),
        (lambda q, k, v: attention(q, k, v, scale=0.3), QKV),
        (lambda q, k, v: attention(q, k, v, enable_gqa=True), (rand(1, 4, 4, 8), *QKV[1:])),
        (lambda q, k, v, m: attention(q, k, v, m), (*QKV, HALF_HIDDEN)),
        (
            lambda q, k, v, m: attention(q, k, v, attn_mask=m),
            (*QKV, torch.where(HALF_HIDDEN, 0, -INF)),
        ),
        (lambda q, k, v, m: attention(q, k, v, m), (*QKV, rand(4, 5))),
    ],
)
@pytest.mark.skipif(
    find_spec("onnxruntime") is None,
    reason="its target is ONNX Runtime: the session onnxruntime runs this file too",
)
def test_attention_exports_correctly_to_old_opsets(export, function, args, opset):
    model, args = Model(function), tuple(args)
    rewritten = export(model, args, exporter="torchscript", opset=opset, builtin=True)
    assert same(rewritten.run_on_target(*args)[0], model(*args))
    with pytest.raises(Exception, match=r"scaled_dot_product_attention|not supported"):
        export(model, args, exporter="torchscript", opset=opset)


def same(result, expected):
    tolerance = 2e-3 if expected.dtype == torch.float16 else 1e-5
    return (
        result.dtype == expected.dtype
        and result.shape == expected.shape
        and torch.allclose(result, expected, atol=tolerance, rtol=tolerance, equal_nan=True)
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("exporter", "function", "args", "dims", "others"),
    [
        (
            "torchscript",
            lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
            (rand(1, 2, 6, 4),),
            {"x": {2: "h", 3: "w"}},
            [(rand(1, 2, 7, 9),), (rand(1, 2, 2, 1),)],
        ),
        (
            "dynamo",
            lambda x: torch.linspace(2.0, -1.0, x.shape[0]) + x,
            (rand(5),),
            {"x": {0: "n"}},
            [(rand(8),), (rand(2),)],
        ),
        (
            "torch.export",
            lambda x: torch.linspace(2.0, -1.0, x.shape[0]) + x,
            (rand(5),),
            {"x": {0: "n"}},
            [(rand(8),), (rand(2),)],
        ),
    ],
)
def test_dynamic_sizes_stay_dynamic(export, exporter, function, args, dims, others):
    model = Model(function)
    with pytest.raises(Exception):  # noqa: B017  # each exporter raises an error of its own
        export(model, args, exporter=exporter, dynamic=dims)
    exported = export(model, args, exporter=exporter, dynamic=dims, builtin=True)
    for inputs in (args, *others):
        assert same(exported.run(*inputs)[0], model(*inputs))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("exporter", "function", "args", "dims", "others"),
    [
        (
            "torchscript",
            lambda x: x.roll((1, -7), (0, 1)),
            (rand(4, 5),),
            {"x": {0: "n", 1: "m"}},
            [(rand(2, 9),)],
        ),
        (
            "dynamo",
            lambda x: x.squeeze((0, 2)),
            (rand(1, 4, 1),),
            {"x": {1: "n"}},
            [(rand(1, 9, 1),)],
        ),
        (
            "torchscript",
            lambda x: x.squeeze((0, 2)),
            (rand(1, 4, 1),),
            {"x": {1: "n"}},
            [(rand(1, 9, 1),)],
        ),
        (
            "dynamo",
            lambda x: attention(x, x, x, x @ x.mT > 0),
            (rand(3, 4, 8),),
            {"x": {0: "b", 1: "n"}},
            [(rand(2, 7, 8),)],
        ),
        (
            "torchscript",
            lambda x: attention(x, x[:, :2], x[:, :2], enable_gqa=True),
            (rand(1, 4, 4, 8),),
            {"x": {0: "b", 2: "n"}},
            [(rand(2, 4, 7, 8),)],
        ),
        (
            "dynamo",
            lambda x: torch.zeros_like(x).copy_(x[:1]),
            (rand(3, 4),),
            {"x": {0: "n"}},
            [(rand(5, 4),)],
        ),
        # Dynamo fixes the length of any LSTM.
        (
            "torchscript",
            Projected(0, bidirectional=True),
            (rand(5, 2, 4),),
            {"x": {0: "t"}},
            [(rand(9, 2, 4),), (rand(1, 2, 4),)],
        ),
    ],
)
@WITHOUT_ONEDNN
def test_exported_graph_is_correct_for_other_sizes(export, exporter, function, args, dims, others):
    model = Model(function)
    exported = export(model, args, exporter=exporter, dynamic=dims, builtin=True)
    for inputs in (args, *others):
        assert same(exported.run(*inputs)[0], model(*inputs))


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, needed):
        ctx.save_for_backward(x)
        ctx.needed = needed and not any(ctx.needs_input_grad)
        return x / 2

    @staticmethod
    def backward(ctx, grad):
        return grad / 2, None


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


doubled = Doubled.apply


@pytest.mark.parametrize("function", [lambda x: Halved.apply(x, True) + 1, lambda x: doubled(x)])
def test_autograd_functions_can_be_saved_in_a_trace(export, function):
    model, args = Model(function), (rand(2, 3),)
    with pytest.raises(ExportError, match="Could not export Python function call"):
        export(model, args, exporter="jit.trace")
    exported = export(model, args, exporter="jit.trace", builtin=True)
    assert same(exported.run(*args)[0], model(*args))


def test_adjoint_in_a_trace_matches_torch(export):
    model, args = Model(lambda x: x.mT @ x.mH), (rand(2, 3, 3),)
    exported = export(model, args, exporter="jit.trace", builtin=True)
    assert same(exported.run(*args)[0], model(*args))


def test_autograd_functions_outside_a_trace_keep_their_gradients():
    x = rand(3).requires_grad_()
    with rewrite(backend="any", ir="torchscript"):
        Halved.apply(x, False).sum().backward()
    assert x.grad.tolist() == [0.5] * 3


def test_every_builtin_rewriter_is_tested():
    named = {
        *("torch.any", "torch.all", "torch.Tensor.any", "torch.Tensor.all", "torch.roll"),
        *("torch.Tensor.roll", "torch.squeeze", "torch.Tensor.squeeze", "torch.linspace", "copy"),
        "torch.nn.functional.adaptive_avg_pool1d",
        "torch.nn.functional.adaptive_avg_pool2d",
        "torch.nn.functional.scaled_dot_product_attention",
        *("torch.permute", "torch.Tensor.permute", "torch.diff", "torch.Tensor.diff"),
        *("torch.cumsum", "torch.Tensor.cumsum"),
        *("torch.repeat_interleave", "torch.Tensor.repeat_interleave"),
        *("torch.as_strided", "torch.Tensor.as_strided", DEEPCOPY),
        *("torch.histc", "torch.Tensor.histc", "torch.autograd.Function.apply"),
        *("torch.cov", "torch.Tensor.cov", "torch.corrcoef", "torch.Tensor.corrcoef"),
        *("torch.nn.functional.grouped_mm", "torch._grouped_mm", FALLBACK),
        *("torch.Tensor.mT", "torch.Tensor.mH", "torch.Tensor.adjoint", "torch.adjoint"),
        *("torch.Tensor.unfold", "col2im", "log_sigmoid", POOL + "2d", POOL + "3d"),
        *(BAGS, CROSS_ENTROPY, *(name for _, name in SUMS)),
        *(name for name, _, _ in UNBATCHED),
        *("torch.lstm", UNPACKED),
    }
    builtin = builtin_rewriters()
    # The lowerings are tested in test_builtin_lowerings.py.
    assert {rewriter.name for rewriter in builtin if rewriter.kind != "lowering"} == named
