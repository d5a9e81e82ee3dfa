"""A caller's symbolic of each operator that deployments replace fires, or is refused."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from enginebay.errors import ExportError
from enginebay.rewriting import RewriterSet
from enginebay.rewriting.torchscript_symbolics import SUPERSEDED

_DIM, _TWO, _GRID = torch.ones(4), torch.ones(2, 4, 1, 1), torch.zeros(2, 3, 3, 2)

CALLS = {
    "norm": lambda x: x.norm(dim=-1),
    "_convolution": lambda x: F.conv2d(x, _TWO),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 2),
    "addmm": lambda x: torch.addmm(x[0, 0], x[0, 0], x[0, 1]),
    "atan2": lambda x: torch.atan2(x, x + 1),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "baddbmm": lambda x: torch.baddbmm(x[0], x[0], x[1]),
    "batch_norm": lambda x: F.batch_norm(x, _DIM, _DIM),
    "clamp": lambda x: x.clamp(0, 1),
    "conv2d": lambda x: F.conv2d(x, _TWO),
    "cumprod": lambda x: x.cumprod(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "einsum": lambda x: torch.einsum("abcd->abdc", x),
    "elu": F.elu,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "expand": lambda x: x[:1].expand(2, 4, 8, 8),
    "flip": lambda x: x.flip(-1),
    "fmod": lambda x: torch.fmod(x, 0.3),
    "gelu": F.gelu,
    "glu": F.glu,
    "grid_sampler": lambda x: F.grid_sample(x, _GRID, align_corners=False),
    "group_norm": lambda x: F.group_norm(x, 2),
    "hardshrink": F.hardshrink,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "im2col": lambda x: F.unfold(x, 2),
    "instance_norm": lambda x: F.instance_norm(x),
    "layer_norm": lambda x: F.layer_norm(x, (8,)),
    "linear": lambda x: F.linear(x, torch.ones(3, 8)),
    "linspace": lambda x: x + torch.linspace(0, 1, 8),
    "log_softmax": lambda x: x.log_softmax(-1),
    "logaddexp": lambda x: torch.logaddexp(x, x + 1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "masked_fill": lambda x: x.masked_fill(x > 0.5, 0),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "mean": lambda x: x.mean(-1),
    "permute": lambda x: x.permute(0, 1, 3, 2),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "prelu": lambda x: F.prelu(x, _DIM),
    "remainder": lambda x: torch.remainder(x, 0.3),
    "repeat_interleave": lambda x: x.repeat_interleave(2),
    "roll": lambda x: x.roll(1, -1),
    "round": torch.round,
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "softmax": lambda x: x.softmax(-1),
    "softplus": F.softplus,
    "softsign": F.softsign,
    "squeeze": lambda x: x[:1].squeeze(0),
    "std": lambda x: x.std(-1),
    "tril": torch.tril,
    "triu": torch.triu,
    "unfold": lambda x: x.unfold(-1, 2, 1),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "upsample_bilinear2d": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "var": lambda x: x.var(-1),
    "where": lambda x: torch.where(x > 0.5, x, 0 * x),
}

#: Operators that an exporter never translates, and the exporter that does.
REFUSED = {
    ("norm", "dynamo"): None,
    ("norm", "torchscript"): None,
    ("linspace", "torchscript"): "dynamo",
    ("conv2d", "torchscript"): "dynamo",
    ("_convolution", "dynamo"): "torchscript",
    ("batch_norm", "dynamo"): "torchscript",
    ("hardshrink", "dynamo"): "torchscript",
    ("softsign", "dynamo"): None,
    ("softsign", "torchscript"): None,
}


class Called(nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, x):
        return self.call(x)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("name", CALLS)
def test_the_callers_symbolic_fires_or_is_refused(export, exporter, name):
    rewriters = RewriterSet()
    rewriters.symbolic(name, is_pytorch=True)(lambda ctx, g, *_: g.op("my.domain::Own"))
    model, x = Called(CALLS[name]), torch.rand(2, 4, 8, 8) + 0.1
    if (name, exporter) in REFUSED:
        with pytest.raises(ExportError) as caught:
            export(model, x, rewriters, exporter=exporter, builtin=True)
        other = REFUSED[name, exporter]
        start = f'the symbolic of "{name}" does nothing in the {exporter} exporter: '
        assert start in str(caught.value)
        assert str(caught.value).partition("; export with the ")[2] == (
            f"{other} exporter" if other else ""
        )
        return
    exported = export(model, x, rewriters, exporter=exporter, builtin=True)
    assert exported.report.fired[name] >= 1
    assert "my.domain::Own" in exported.nodes


_CONSTANT = 'the symbolic of "linspace" does nothing in the torchscript exporter: '
_CONSTANT += (
    "the exporter folds nodes that do not depend on an input; export with the dynamo exporter"
)


def test_plugins_symbolic_of_a_folded_operator_is_reported(export):
    rewriters = RewriterSet(distribution="a-pack")
    rewriters.symbolic("linspace", is_pytorch=True)(lambda ctx, g, *_: g.op("my.domain::Own"))
    x = torch.rand(2, 8)
    exported = export(Called(CALLS["linspace"]), x, rewriters, exporter="torchscript")
    assert exported.report.not_served == (_CONSTANT,)
    torch.testing.assert_close(exported.run(x)[0], CALLS["linspace"](x))


def test_symbolic_that_fires_is_not_refused_for_a_folded_constant(export):
    rewriters = RewriterSet()
    rewriters.symbolic("cumsum", is_pytorch=True)(lambda ctx, g, x, *_: g.op("my.domain::Own", x))
    model = Called(lambda x: x.cumsum(-1) + torch.ones(8).cumsum(-1))
    exported = export(model, torch.rand(2, 8), rewriters, exporter="torchscript")
    assert exported.report.fired == {"cumsum": 1}


def test_symbolic_of_an_unused_operator_is_not_refused(export):
    class Unused(nn.Module):
        def forward(self, x):
            x.cumsum(-1)
            return x + 1

    rewriters = RewriterSet()
    rewriters.symbolic("cumsum", is_pytorch=True)(lambda ctx, g, x, *_: g.op("my.domain::Own", x))
    exported = export(Unused(), torch.rand(2, 8), rewriters, exporter="torchscript")
    assert exported.report.never_fired == ("cumsum",)


@pytest.mark.parametrize("name", SUPERSEDED)
def test_superseded_operators_are_captured_under_their_new_name(name):
    """Check the table SUPERSEDED against torch."""
    order = "nuc" if name == "aten::nuclear_norm" else "fro"
    model = Called(lambda x: torch.norm(x, order, dim=(0, 1)))
    program = torch.export.export(model, (torch.rand(2, 3),))
    kinds = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert [str(each).split(".")[1] for each in kinds] == [SUPERSEDED[name]]
