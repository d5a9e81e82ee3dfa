"""The rewriters for ONNX Runtime are needed, and match PyTorch."""

from __future__ import annotations

from contextlib import contextmanager

import onnxruntime
import pytest
import torch
from hypothesis import given, strategies as st
from packages.core.tests.exports import export
from torch import nn

from enginebay import rewrite
from enginebay_onnxruntime.rewriters import rewriters

MASK = torch.tensor([[True, False, True], [False, False, True]])
both = pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, mask):
        return self.function(x, mask)


def run(path, sets, exporter, function, x):
    """The model's output from ONNX Runtime, and the names that were rewritten."""
    reports = []

    @contextmanager
    def patch(model, name):
        # With a backend, the plugin's rewriters are applied too.
        backend = "onnxruntime" if sets else None
        with rewrite(model, backend=backend, rewriters=sets, exporter=name) as rewriting:
            yield rewriting.model
        reports.append(rewriting.report)

    ir = export(Model(function), (x, MASK), path=path / "m.onnx", exporter=exporter, patch=patch)
    session = onnxruntime.InferenceSession(ir.path, providers=["CPUExecutionProvider"])
    feed = {"x": x.numpy(), "mask": MASK.numpy()}
    names = [each.name for each in session.get_inputs()]
    (output,) = session.run(None, {name: feed[name] for name in names})
    return torch.from_numpy(output), reports[-1].fired


def fill_in_place(x, mask):
    y = x.clone()
    y.masked_fill_(mask, 1)
    return y


@pytest.mark.one_in(8)
@both
@pytest.mark.parametrize(
    ("name", "dtype", "function"),
    [
        ("torch.Tensor.masked_fill", torch.bool, lambda x, m: x.masked_fill(m, True)),
        ("torch.Tensor.masked_fill", torch.bool, lambda x, m: x.masked_fill(m, False)),
        ("torch.masked_fill", torch.int16, lambda x, m: torch.masked_fill(x, m, -7)),
        ("torch.Tensor.masked_fill_", torch.bool, fill_in_place),
        ("torch.where", torch.bool, lambda x, m: torch.where(m, x, ~x)),
        ("torch.where", torch.bool, lambda x, m: torch.where(m, x, True)),
        ("torch.Tensor.where", torch.int16, lambda x, m: x.where(m, x - 1)),
        ("torch.triu", torch.uint8, lambda x, m: torch.triu(x, diagonal=1)),
        ("torch.Tensor.tril", torch.int8, lambda x, m: x.tril(-1)),
    ],
)
def test_each_rewriter_is_needed_and_matches_torch(tmp_path, exporter, name, dtype, function):
    x = torch.arange(-3, 3).reshape(2, 3).to(dtype)
    found, fired = run(tmp_path, [rewriters], exporter, function, x)
    assert fired[name] >= 1
    assert found.dtype == dtype
    assert torch.equal(found, function(x, MASK))
    with pytest.raises(Exception, match=r"NOT_IMPLEMENTED|cannot be exported"):
        run(tmp_path, [], exporter, function, x)


def test_the_plugin_registers_the_rewriters():
    from enginebay_onnxruntime import plugin

    assert plugin.rewriters(request=None) is rewriters


DTYPES = st.sampled_from(
    [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int64, torch.float32, torch.float16]
)


@st.composite
def tensors(draw, shape):
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    tensor = torch.randint(-9, 9, shape, generator=generator).to(draw(DTYPES))
    return tensor.mT.contiguous().mT if draw(st.booleans()) and len(shape) > 1 else tensor


shapes = st.lists(st.integers(0, 4), max_size=3)


def check(function, *args, **kwargs):
    def call():
        try:
            return function(*args, **kwargs)
        except (RuntimeError, TypeError) as err:
            return err

    expected = call()
    with rewrite(backend="onnxruntime", rewriters=[rewriters], builtin=False) as rewriting:
        found = call()
    assert rewriting.report.fired
    if isinstance(expected, Exception):
        return  # a wider dtype may take a number that the original's cannot hold
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


@given(data=st.data(), shape=shapes, form=st.integers(0, 2))
def test_masked_fill_matches_torch(data, shape, form):
    x, mask = data.draw(tensors(shape)), data.draw(tensors(shape)) > 0
    value = data.draw(st.integers(-9, 9) | st.booleans() | st.just(torch.tensor(1)))
    if form == 0:
        check(torch.masked_fill, x, mask, value)
    elif form == 1:
        check(torch.Tensor.masked_fill, x, mask=mask, value=value)
    else:
        check(lambda: x.clone().masked_fill_(mask, value))


@given(data=st.data(), shape=shapes, form=st.integers(0, 3))
def test_where_matches_torch(data, shape, form):
    x, y, c = (data.draw(tensors(shape)) for _ in range(3))
    if form == 0:
        check(torch.where, c > 0, x, y)
    elif form == 1:
        check(torch.where, c > 0, x, data.draw(st.integers(-9, 9) | st.booleans()))
    elif form == 2:
        check(torch.Tensor.where, x, c > 0, y)
    else:
        check(torch.where, c > 0, data.draw(st.booleans()), y)


@given(
    data=st.data(),
    shape=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    function=st.sampled_from([torch.triu, torch.tril, torch.Tensor.triu, torch.Tensor.tril]),
    diagonal=st.integers(-4, 4),
    by_name=st.booleans(),
)
def test_triangles_match_torch(data, shape, function, diagonal, by_name):
    x = data.draw(tensors(shape))
    if by_name:
        check(function, x, diagonal=diagonal)
    else:
        check(function, x, diagonal)
