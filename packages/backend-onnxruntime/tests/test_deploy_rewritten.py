"""One model deployed on ONNX Runtime with rewriters and without, through the whole line."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import ExportError, NotVerifiedError

both = pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])


#: The names that the correct rewriters replace.
OWN = {"torch.nn.functional.scaled_dot_product_attention", "torch.nn.LayerNorm", "gelu"}


class Windows(nn.Module):
    """A block of a shifted-window transformer over an image, and a head."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 4, stride=4)
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.head = nn.Linear(8, 5)

    def forward(self, image):
        x = self.embed(image).permute(0, 2, 3, 1)
        n, h, w, c = x.shape
        shifted = torch.roll(self.norm(x), (-2, -2), (1, 2))
        windows = shifted.reshape(n, h // 4, 4, w // 4, 4, c).transpose(2, 3).reshape(-1, 16, c)
        windows = self.attention(windows, windows, windows, need_weights=False)[0]
        mixed = windows.reshape(n, h // 4, w // 4, 4, 4, c).transpose(2, 3).reshape(n, h, w, c)
        x = x + torch.roll(mixed, (2, 2), (1, 2))
        return self.head((x + self.mlp(x)).mean((1, 2)))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Windows().eval()


@pytest.fixture(scope="module")
def image():
    return torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def correct_rewriters():
    """One rewriter of each kind; together they change every layer of the model."""
    rewriters = eb.RewriterSet(backend="onnxruntime")

    @rewriters.function("torch.nn.functional.scaled_dot_product_attention")
    def attention(ctx, q, k, v, *nothing, **neither):
        assert not any((*nothing, *neither.values()))  # no mask, no dropout, no scale
        return torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, -1) @ v

    @rewriters.module("torch.nn.LayerNorm")
    class PlainNorm(nn.Module):
        def __init__(self, ctx, module):
            super().__init__()
            self.module = module

        def forward(self, x):
            centred = x - x.mean(-1, keepdim=True)
            spread = (centred.square().mean(-1, keepdim=True) + self.module.eps).sqrt()
            return centred / spread * self.module.weight + self.module.bias

    @rewriters.symbolic("gelu", is_pytorch=True)
    def gelu(ctx, g, x, approximate):
        half = g.op("Constant", value_t=torch.tensor(0.5))
        one = g.op("Constant", value_t=torch.tensor(1.0))
        root = g.op("Constant", value_t=torch.tensor(2.0).sqrt())
        error = g.op("Erf", g.op("Div", x, root))
        return g.op("Mul", g.op("Mul", x, half), g.op("Add", error, one))

    return rewriters


def wrong_rewriters(kind):
    """A rewriter of one kind, which halves the original's result."""
    rewriters = eb.RewriterSet()
    if kind == "function":
        rewriters.function("torch.nn.functional.multi_head_attention_forward")(
            lambda ctx, *args, **kwargs: (ctx.origin_func(*args, **kwargs)[0] / 2, None)
        )
    elif kind == "module":

        @rewriters.module("torch.nn.Conv2d")
        class Half(nn.Module):
            def __init__(self, ctx, module):
                super().__init__()
                self.module = module

            def forward(self, x):
                return self.module(x) / 2

    else:

        @rewriters.symbolic("gelu", is_pytorch=True)
        def gelu(ctx, g, x, approximate):
            return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(0.5)))

    return rewriters


def deploy(model, image, work_dir, exporter, *rewriters, **more):
    return eb.deploy(
        model,
        image,
        backend="onnxruntime",
        work_dir=work_dir,
        export={"exporter": exporter, "rewriters": rewriters},
        **more,
    )


def fired(deployment):
    """Return the caller's rewriters that fired, without those of core and the plugin."""
    applied = deployment.rewriting.applied
    return {entry.name for entry in applied if entry.count and entry.distribution is None}


@pytest.mark.slow
@both
def test_a_model_is_verified_with_and_without_rewriters(tmp_path, model, image, exporter):
    before = dict(model.named_modules())
    without = deploy(model, image, tmp_path / "without", exporter)
    rewritten = deploy(model, image, tmp_path / "with", exporter, correct_rewriters())
    assert (without.verdict, rewritten.verdict) == ("verified", "verified")

    assert (fired(without), fired(rewritten)) == (set(), OWN)
    assert dict(model.named_modules()) == before

    outputs = []
    for deployment in (without, rewritten):
        with eb.load(deployment.artifact) as wrapper:
            outputs.append(wrapper({"image": image.numpy()})["output"])
    with torch.no_grad():
        expected = model(image).numpy()
    assert not np.array_equal(*outputs)  # other nodes round in another way
    for found in outputs:
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.one_in(6)
@both
@pytest.mark.parametrize("kind", ["function", "module", "symbolic"])
def test_a_wrong_rewriter_fails_the_verification(tmp_path, model, image, exporter, kind):
    with pytest.raises(NotVerifiedError, match="output"):
        deploy(model, image, tmp_path / "out", exporter, wrong_rewriters(kind))
    assert not (tmp_path / "out").exists()
    assert deploy(model, image, tmp_path / "out", exporter).verdict == "verified"


@pytest.mark.slow
@both
def test_a_rewriter_makes_a_model_deployable(tmp_path, monkeypatch, exporter):
    monkeypatch.setitem(sys.modules, "asking_model", sys.modules[__name__])

    class Asking(nn.Module):
        def forward(self, x):
            return x.relu() if bright(x) else -x

    rewriters = eb.RewriterSet()
    rewriters.function("asking_model.bright")(lambda ctx, x: True)
    x = torch.rand(2, 3) + 1
    with pytest.raises(ExportError):
        deploy(Asking(), x, tmp_path / "out", "dynamo")
    with pytest.raises(NotVerifiedError, match="--domain"):
        deploy(Asking(), x, tmp_path / "out", exporter, rewriters)
    bright_only = {"x": (0.6, 2)}
    deployed = deploy(
        Asking(), x, tmp_path / "out", exporter, rewriters, verify={"domain": bright_only}
    )
    assert deployed.verdict == "verified"


def bright(x):
    return bool(x.mean() > 0.5)
