"""A built-in rewriter returns the results of the original for any input, in eager mode."""

from __future__ import annotations

import math
from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, assume, example, given, settings, strategies as st
from packages.core.tests.rewriting.contexts import rewrite

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool)
SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-30, 3e4)


@st.composite
def tensors(draw, *, ranks=(0, 4), sizes=(0, 5), dtypes=FLOATS + INTEGERS, special=False):
    """A tensor of any strides: transposed, sliced with a step, or expanded."""
    shape = draw(st.lists(st.integers(*sizes), min_size=ranks[0], max_size=ranks[1]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    values = torch.randn(shape, generator=generator) * 2
    if special:
        chosen = torch.randint(len(SPECIAL), shape, generator=generator)
        keep = torch.rand(shape, generator=generator) < 0.3
        values = torch.where(keep, values, torch.tensor(SPECIAL)[chosen])
    values = values.to(draw(st.sampled_from(dtypes)))
    layout = draw(st.sampled_from(["contiguous", "transposed", "stepped", "expanded"]))
    if layout == "transposed" and values.dim() > 1:
        return values.mT.contiguous().mT
    if layout == "stepped" and values.dim():
        return values.repeat_interleave(2, 0)[::2]
    if layout == "expanded" and values.dim() and values.shape[0]:
        return values[:1].expand(values.shape)
    return values


def check(function, *args, exporter="torchscript", may_accept_more=False, half=2e-2, **kwargs):
    """Assert that the original and the rewritten call return the same, or that both raise.

    Args:
        half: The absolute error that a result in half precision may have.
    """

    def call():
        try:
            return function(*args, **kwargs)
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as err:
            return err

    expected = call()
    with rewrite(backend="any", exporter=exporter) as rewriting:
        result = call()
    if isinstance(expected, Exception):
        assert may_accept_more or isinstance(result, Exception), (result, expected)
        return
    assert rewriting.report.fired
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    rough = expected.dtype in (torch.float16, torch.bfloat16)
    tolerance = {"atol": half, "rtol": 2e-2} if rough else {"atol": 1e-5, "rtol": 1e-5}
    torch.testing.assert_close(result, expected, equal_nan=True, **tolerance)


exporters = st.sampled_from(["dynamo", "torchscript", None])
outputs = st.none() | st.integers(1, 6)


@given(
    x=tensors(ranks=(2, 4), dtypes=(*FLOATS, torch.int64)),
    size=st.integers(0, 6) | st.tuples(outputs, outputs),
    by_name=st.booleans(),
)
def test_adaptive_avg_pool2d(x, size, by_name):
    given = {"output_size": size} if by_name else {}
    args = () if by_name else (size,)
    check(F.adaptive_avg_pool2d, x, *args, may_accept_more=True, **given)


@given(
    x=tensors(ranks=(1, 3), dtypes=FLOATS),
    size=st.integers(1, 6) | st.tuples(st.integers(1, 6)),
    by_name=st.booleans(),
)
def test_adaptive_avg_pool1d(x, size, by_name):
    given = {"output_size": size} if by_name else {}
    args = () if by_name else (size,)
    check(F.adaptive_avg_pool1d, x, *args, may_accept_more=True, **given)


@given(
    x=tensors(special=True),
    function=st.sampled_from([torch.any, torch.all, torch.Tensor.any, torch.Tensor.all]),
    form=st.sampled_from(["none", "positional", "keyword", "keepdim", "several"]),
    dim=st.integers(-4, 4),
    exporter=exporters,
)
def test_any_and_all(x, function, form, dim, exporter):
    forms = {
        "none": ((), {}),
        "positional": ((dim,), {}),
        "keyword": ((), {"dim": dim}),
        "keepdim": ((dim, True), {}),
        "several": (((0, dim),), {"keepdim": True}),
    }
    args, kwargs = forms[form]
    check(function, x, *args, exporter=exporter, **kwargs)


@given(
    a=tensors(special=True, ranks=(0, 3), sizes=(1, 3)),
    b=tensors(special=True, ranks=(0, 3), sizes=(1, 3)),
    function=st.sampled_from(
        [torch.logaddexp, torch.logaddexp2, torch.Tensor.logaddexp, torch.Tensor.logaddexp2]
    ),
    exporter=exporters,
)
def test_logaddexp(a, b, function, exporter):
    check(function, a, b, exporter=exporter)


@given(
    x=tensors(special=True, ranks=(1, 3), sizes=(1, 3), dtypes=FLOATS[:2]),
    weights=st.tuples(st.booleans(), st.booleans()),
    reduction=st.sampled_from(["none", "mean", "sum", "other"]),
    by_name=st.booleans(),
)
def test_binary_cross_entropy(x, weights, reduction, by_name):
    target = torch.rand(x.shape, dtype=x.dtype)
    weight, pos_weight = (torch.rand(x.shape[-1]) + 0.5 if given else None for given in weights)
    function = F.binary_cross_entropy_with_logits
    if by_name:
        options = {"weight": weight, "pos_weight": pos_weight, "reduction": reduction}
        check(function, input=x, target=target, **options)
    else:
        check(function, x, target, weight, None, None, reduction, pos_weight)


@st.composite
def attention_calls(draw):
    rank = draw(st.integers(2, 5))
    batch = draw(st.lists(st.integers(1, 3), min_size=rank - 2, max_size=rank - 2))
    rows, keys, width, out = (draw(st.integers(1, 5)) for _ in range(4))
    dtype = draw(st.sampled_from(FLOATS))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))

    def rand(*sizes):
        return torch.randn(sizes, generator=generator).to(dtype)

    query, key, value = (
        rand(*batch, rows, width),
        rand(*batch, keys, width),
        rand(*batch, keys, out),
    )
    kwargs = {}
    if rank > 2 and draw(st.booleans()):
        kwargs["enable_gqa"] = True
        query = query.repeat_interleave(draw(st.integers(1, 3)), -3)
    if draw(st.booleans()):
        kwargs["scale"] = draw(st.sampled_from([0.1, 1.0, 2]))
    if draw(st.booleans()):
        query = query.mT.contiguous().mT
    shapes = [
        (rows, keys),
        (1, keys),
        (*query.shape[:-2], rows, keys),
        (*query.shape[:-2], 1, keys),
    ]
    shape = draw(st.sampled_from([None, *shapes]))
    if shape is None:
        kwargs["is_causal"] = draw(st.booleans())
    else:
        mask = torch.rand(shape, generator=generator) < draw(st.sampled_from([0.2, 0.9]))
        as_numbers = torch.zeros(shape, dtype=dtype).masked_fill(~mask, -math.inf)
        kwargs["attn_mask"] = draw(st.sampled_from([mask, as_numbers]))
    return (query, key, value), kwargs


@given(call=attention_calls(), exporter=exporters, positional=st.booleans())
def test_attention(call, exporter, positional):
    (query, key, value), kwargs = call
    args = (query, key, value)
    if positional:
        args = (*args, kwargs.pop("attn_mask", None), 0.0, kwargs.pop("is_causal", False))
    check(F.scaled_dot_product_attention, *args, exporter=exporter, **kwargs)


@given(
    x=tensors(),
    shifts=st.integers(-9, 9) | st.lists(st.integers(-9, 9), max_size=2).map(tuple),
    dims=st.none() | st.integers(-4, 4) | st.lists(st.integers(-3, 3), max_size=2).map(tuple),
    function=st.sampled_from([torch.roll, torch.Tensor.roll]),
    by_name=st.booleans(),
)
def test_roll(x, shifts, dims, function, by_name):
    if dims is None:
        check(function, x, shifts)
    elif by_name:
        check(function, x, shifts=shifts, dims=dims)
    else:
        check(function, x, shifts, dims)


@given(
    x=tensors(),
    dims=st.lists(st.integers(-4, 4), max_size=4),
    form=st.sampled_from(["several", "tuple", "keyword"]),
    function=st.sampled_from([torch.permute, torch.Tensor.permute]),
)
def test_permute(x, dims, form, function):
    if form == "keyword":
        check(function, x, dims=dims)
    elif form == "tuple" or function is torch.permute or not dims:
        check(function, x, tuple(dims))
    else:
        check(function, x, *dims)


@given(
    x=tensors(),
    shape=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=3),
    offset=st.none() | st.integers(0, 4),
    function=st.sampled_from([torch.as_strided, torch.Tensor.as_strided]),
)
def test_as_strided(x, shape, offset, function):
    sizes, strides = [size for size, _ in shape], [stride for _, stride in shape]
    more = () if offset is None else (offset,)
    check(function, x, sizes, strides, *more)


@given(
    x=tensors(),
    dim=st.integers(-4, 4),
    dtype=st.sampled_from([{}, {"dtype": None}, {"dtype": torch.float32}]),
    function=st.sampled_from([torch.cumsum, torch.Tensor.cumsum]),
)
def test_cumsum(x, dim, dtype, function):
    check(function, x, dim, **dtype)


@given(
    x=tensors(),
    repeats=st.integers(-1, 3) | st.just(torch.tensor([2])),
    dim=st.none() | st.integers(-4, 4),
    function=st.sampled_from([torch.repeat_interleave, torch.Tensor.repeat_interleave]),
)
def test_repeat_interleave(x, repeats, dim, function):
    check(function, x, repeats, dim)
    check(function, x, repeats=repeats, dim=dim)


@given(
    x=tensors(),
    n=st.integers(-1, 3),
    dim=st.integers(-4, 4),
    more=st.sampled_from([(), ("prepend",), ("append",), ("prepend", "append")]),
    positional=st.booleans(),
)
def test_diff(x, n, dim, more, positional):
    given = dict.fromkeys(more, x)
    if positional:
        check(torch.diff, x, n, dim, *(given.get(name) for name in ("prepend", "append")))
    else:
        check(torch.Tensor.diff, x, n=n, dim=dim, **given)


@given(
    x=tensors(dtypes=(torch.float32, torch.float64, torch.int64), special=True),
    bins=st.integers(0, 9),
    ends=st.tuples(st.integers(-3, 3), st.integers(-3, 3)) | st.just(()),
)
def test_histc(x, bins, ends):
    check(torch.histc, x, bins, *ends)


@given(x=tensors(dtypes=(torch.float32, torch.float64, torch.int64)), correction=st.integers(0, 2))
def test_cov_and_corrcoef(x, correction):
    assume(0 < x.ndim <= 2 and x.shape[-1] > 2)  # torch warns of fewer observations
    check(torch.cov, x, correction=correction)
    check(torch.corrcoef, x)


@given(
    mode=st.sampled_from(["sum", "mean", "max"]),
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    is_flat=st.booleans(),
    includes_end=st.booleans(),
    weighted=st.booleans(),
    padding=st.sampled_from([None, 0, 3, -1]),
    seed=st.integers(0, 99),
)
def test_embedding_bag(mode, lengths, is_flat, includes_end, weighted, padding, seed):
    generator = torch.Generator().manual_seed(seed)
    shape = (sum(lengths),) if is_flat else (len(lengths), max(*lengths, 1))
    indices = torch.randint(0, 5, shape, generator=generator)
    options = {"mode": mode, "padding_idx": padding}
    if is_flat:
        ends = torch.tensor([0, *lengths]).cumsum(0)
        options["offsets"] = ends if includes_end else ends[:-1]
        options["include_last_offset"] = includes_end
    if weighted and mode == "sum":
        options["per_sample_weights"] = torch.rand(shape, generator=generator)
    check(F.embedding_bag, indices, torch.randn(5, 3, generator=generator), **options)


@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=5),
    left=st.integers(0, 3),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_grouped_mm(sizes, left, dtype):
    ends = torch.tensor(sizes).cumsum(0).to(torch.int32)
    rows = torch.randn(int(ends[-1]) + left, 16).to(dtype)
    matrices = torch.randn(len(sizes), 16, 8).to(dtype)
    # Rows after the last group are uninitialised memory.
    check(lambda: F.grouped_mm(rows, matrices, offs=ends)[: int(ends[-1])])


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    batch_first=st.booleans(),
    padding=st.sampled_from([0.0, -1.0]),
    total=st.none() | st.integers(4, 6),
)
def test_pad_packed_sequence(lengths, batch_first, padding, total):
    x = torch.randn(len(lengths), 5, 2)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False)
    pad = torch.nn.utils.rnn.pad_packed_sequence
    check(lambda: pad(packed, batch_first, padding, total)[0])


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@given(
    x=tensors(ranks=(2, 3), sizes=(1, 4), dtypes=(torch.float32, torch.float64)),
    options=st.fixed_dictionaries(
        {
            "hidden_size": st.integers(2, 5),
            "num_layers": st.integers(1, 3),
            **dict.fromkeys(("bias", "batch_first", "bidirectional"), st.booleans()),
            "proj_size": st.integers(0, 1),
        }
    ),
    states=st.booleans(),
)
def test_lstm(x, options, states):
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(x.shape[-1], dtype=x.dtype, **options).eval().requires_grad_(False)
    number = options["num_layers"] * (2 if options["bidirectional"] else 1)
    batch = [x.shape[0 if options["batch_first"] else 1]] if x.dim() == 3 else []
    sizes = (options["proj_size"] or lstm.hidden_size, lstm.hidden_size)
    hx = tuple(torch.randn(number, *batch, size, dtype=x.dtype) for size in sizes)

    def flat():
        output, last = lstm(x, hx if states else None)
        return torch.cat([each.flatten() for each in (output, *last)])

    check(flat)


@given(
    x=tensors(sizes=(0, 2)),
    dims=st.none() | st.integers(-4, 4) | st.lists(st.integers(-4, 4), max_size=3).map(tuple),
    function=st.sampled_from([torch.squeeze, torch.Tensor.squeeze]),
    exporter=exporters,
    by_name=st.booleans(),
)
def test_squeeze(x, dims, function, exporter, by_name):
    if dims is None:
        check(function, x, exporter=exporter)
    elif by_name:
        check(function, x, dim=dims, exporter=exporter)
    else:
        check(function, x, dims, exporter=exporter)


def test_squeeze_returns_a_view():
    x = torch.zeros(1, 4, 1)
    with rewrite(backend="any"):
        x.squeeze(1).add_(1)
        x.squeeze((0, 2)).add_(1)
    assert x.flatten().tolist() == [2.0] * 4


@example(start=-7.5390625, end=4, steps=4, dtype=torch.bfloat16, by_name=False)
@given(
    start=st.floats(-9, 9, width=32),
    end=st.floats(-9, 9, width=32) | st.integers(-9, 9),
    steps=st.integers(0, 9),
    dtype=st.sampled_from([None, *FLOATS, torch.int64]),
    by_name=st.booleans(),
)
@settings(max_examples=25)
def test_linspace(start, end, steps, dtype, by_name):
    """Check a fixed number of steps in eager mode, and a dynamic number in a captured model."""
    kwargs = {} if dtype is None else {"dtype": dtype}
    args = {"start": start, "end": end, "steps": steps} if by_name else {}
    # Between -9 and 9, neighbours in bfloat16 differ by up to 1/16, and linspace adds two numbers.
    check(torch.linspace, *(() if by_name else (start, end, steps)), half=1 / 8, **args, **kwargs)
    if not (steps > 1 and (dtype is None or dtype.is_floating_point)):
        return

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.linspace(start, end, x.shape[0], **kwargs)

    sizes = ({0: torch.export.Dim("n", max=20)},)
    with rewrite(backend="any", ir="exported_program") as rewriting:
        program = torch.export.export(Model(), (torch.zeros(5),), dynamic_shapes=sizes)
    assert rewriting.report.fired["torch.linspace"] >= 1
    result = program.module()(torch.zeros(steps))
    expected = Model()(torch.zeros(steps))
    assert result.dtype == expected.dtype
    rough = dtype in (torch.float16, torch.bfloat16)
    tolerance = 0.15 if rough else 1e-5
    torch.testing.assert_close(result, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize(
    ("target", "source"),
    [
        (torch.float32, torch.int64),
        (torch.int64, torch.float32),
        (torch.bool, torch.float32),
        (torch.float16, torch.float32),
    ],
)
@pytest.mark.parametrize("shape", [(2, 3), (3,), ()])
@pytest.mark.one_in(3)
def test_copy(export, exporter, target, source, shape):
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.zeros(2, 3, dtype=target).copy_(x)

    x = (torch.rand(shape, generator=torch.Generator().manual_seed(0)) * 4 - 2).to(source)
    exported = export(Model(), x, exporter=exporter, builtin=True)
    (result,) = exported.run(x)
    assert torch.equal(result, Model()(x))
    assert result.dtype == target


@given(data=st.data(), exporter=exporters)
def test_avg_pool_with_divisor_override(data, exporter):
    dims = data.draw(st.sampled_from([2, 3]))
    kernel = [data.draw(st.integers(1, 4)) for _ in range(dims)]
    sizes = [data.draw(st.integers(k, 7)) for k in kernel]
    kwargs = {
        "stride": data.draw(st.none() | st.integers(1, 5)),
        "padding": [data.draw(st.integers(0, k // 2)) for k in kernel],
        "ceil_mode": data.draw(st.booleans()),
        "count_include_pad": data.draw(st.booleans()),
        "divisor_override": data.draw(st.none() | st.integers(1, 9)),
    }
    x = torch.randn(1, 2, *sizes, generator=torch.Generator().manual_seed(0))
    check(getattr(F, f"avg_pool{dims}d"), x, kernel, exporter=exporter, **kwargs)


@given(x=tensors(), dimension=st.integers(-5, 5), size=st.integers(0, 4), step=st.integers(1, 3))
def test_unfold(x, dimension, size, step):
    check(torch.Tensor.unfold, x, dimension, size, step)


@given(
    x=tensors(ranks=(2, 4)),
    function=st.sampled_from([torch.adjoint, torch.Tensor.adjoint, lambda x: x.mT, lambda x: x.mH]),
)
def test_adjoint(x, function):
    check(function, x)


@pytest.mark.skipif(
    find_spec("onnxruntime") is None,
    reason="its target is ONNX Runtime: the session onnxruntime runs this file too",
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_pooling_with_or_without_a_batch_matches_torch(export, data):
    dims = data.draw(st.sampled_from([1, 2, 3]))
    batch = data.draw(st.sampled_from([(), (1,), (2,)]))
    kernel = [data.draw(st.integers(1, 3)) for _ in range(dims)]
    sizes = [data.draw(st.integers(k, 6)) for k in kernel]
    padding = [data.draw(st.integers(0, k // 2)) for k in kernel]
    kind = data.draw(st.sampled_from(["MaxPool", "AvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool"]))
    given = (1,) if kind.startswith("Adaptive") else (kernel, data.draw(st.integers(1, 3)), padding)
    model = getattr(torch.nn, f"{kind}{dims}d")(*given)
    x = torch.randn(*batch, 2, *sizes, generator=torch.Generator().manual_seed(0))
    (result,) = export(model, x, exporter="torchscript", builtin=True).run_on_target(x)
    torch.testing.assert_close(result, model(x), atol=1e-5, rtol=1e-5)
