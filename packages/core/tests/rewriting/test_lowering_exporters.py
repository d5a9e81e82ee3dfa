"""A lowering under each exporter."""

from __future__ import annotations

import pytest
import torch
from packages.core.tests.rewriting.lowered import Net, declared
from torch import nn

from enginebay.errors import ExportError
from enginebay.params import DynamicDim
from enginebay.rewriting import RewriterSet


class Model(nn.Module):
    """Reshapes, slices and pads to sizes computed from a dynamic batch and a dynamic length."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        batch, length = x.shape[0], x.shape[1]
        x = self.linear(x.reshape(batch * length, 6)).reshape(batch, length, 6)
        x = torch.cat([x, x.new_zeros(batch, 1, 6)], 1)[:, : length - 1]
        pooled = torch.logsumexp(x, dim=1)
        return pooled.expand(2, batch, 6) + batch, x * length


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model().eval()


def sets():
    rewriters = RewriterSet()

    @rewriters.lowering("aten.logsumexp")
    def logsumexp(ctx, x, dim, keepdim=False):
        top = x.amax(dim, True)
        return (x - top).exp().sum(dim, keepdim).log() + x.amax(dim, keepdim)

    @rewriters.lowering("aten.linear")
    def linear(ctx, x, weight, bias=None):
        return torch.matmul(x, weight.t()) + bias

    return rewriters


BATCH, LENGTH = DynamicDim("batch"), DynamicDim("length", min=3)


@pytest.mark.one_in(2)
def test_lowerings_fire_and_dynamic_sizes_stay_dynamic(export, exporter, model):
    x = torch.rand(2, 4, 6)
    exported = export(model, (x,), sets(), exporter=exporter, dynamic={"x": {0: BATCH, 1: LENGTH}})
    assert set(exported.report.fired) == {"aten.logsumexp", "aten.linear"}
    other = torch.rand(5, 7, 6)
    for result, expected in zip(exported.run(other), model(other), strict=True):
        torch.testing.assert_close(result, expected)


class Mapped(nn.Module):
    """A norm and a softmax, which torch decomposes, and a vmap whose sizes are asserted."""

    def __init__(self):
        super().__init__()
        self.maps = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Softmax(1))

    def forward(self, x):
        def best(maps):
            return maps.permute(1, 2, 0).reshape(-1, 4).sum(1).topk(2).values

        maps = self.maps(x)
        return torch.vmap(best)(maps * 2), torch.logsumexp(maps.flatten(2), dim=2)


def test_lowered_graphs_with_norms_and_asserted_sizes_can_be_traced(export):
    model, x = Mapped().eval(), torch.rand(2, 3, 6, 7)
    dynamic = {"x": {0: BATCH, 2: DynamicDim("height", min=4), 3: DynamicDim("width", min=5)}}
    exported = export(model, (x,), sets(), exporter="torchscript", dynamic=dynamic)
    other = torch.rand(3, 3, 8, 6)
    for result, expected in zip(exported.run(other), model(other), strict=True):
        torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("exporter", ["torchscript", "jit.trace"])
def test_model_without_lowered_operators_is_exported_unchanged(export, exporter):
    class Branches(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x

    exported = export(Branches(), (torch.rand(2, 3),), sets(), exporter=exporter)
    assert exported.notes
    assert not any("lowerings" in note for note in exported.notes)
    assert exported.report.never_fired == ("aten.logsumexp", "aten.linear")


class Unreadable(nn.Module):
    def forward(self, x):
        x = torch.logsumexp(x, dim=1)
        return x * 2 if x.sum() > 0 else x


@pytest.mark.parametrize("exporter", ["torchscript", "jit.trace"])
def test_model_that_cannot_be_captured_is_lowered_from_its_trace(export, exporter):
    """As in any trace, the branch is that of the example inputs."""
    x = torch.rand(2, 3)
    exported = export(Unreadable(), (x,), sets(), exporter=exporter)
    assert set(exported.report.fired) == {"aten.logsumexp"}
    prefix = "the TorchScript trace was captured, because the model itself cannot be captured: "
    assert len([note for note in exported.notes if note.startswith(prefix)]) == 1
    torch.testing.assert_close(exported.run(x)[0], Unreadable()(x))


def test_captured_trace_is_lowered_to_an_engines_operators(export):
    names = ("amax", "sub", "exp", "sum", "squeeze", "log", "add", "mul", "full")
    operators = {f"aten.{name}" for name in names}
    x = torch.rand(2, 3)
    exported = export(Unreadable(), (x,), sets(), exporter="jit.trace", operators=operators)
    torch.testing.assert_close(exported.run(x)[0], Unreadable()(x))


class Stops(Unreadable):
    def forward(self, x):
        if not torch.jit.is_tracing():
            return super().forward(x)
        raise RuntimeError("it stops")


OPEN = {"dynamic": {"x": {0: BATCH}}}


@pytest.mark.parametrize("exporter", ["torchscript", "jit.trace"])
def test_note_explains_why_lowerings_were_not_applied(export, exporter):
    x = torch.rand(2, 3)
    exported = export(Unreadable(), (x,), sets(), exporter=exporter, **OPEN)
    prefix = "lowerings were not applied, because torch.export failed: "
    assert len([note for note in exported.notes if note.startswith(prefix)]) == 1
    torch.testing.assert_close(exported.run(x)[0], Unreadable()(x))


@pytest.mark.parametrize(("model", "given"), [(Unreadable, OPEN), (Stops, {})])
def test_unapplied_lowerings_are_an_error_if_operators_are_given(export, model, given):
    """If neither exporter can capture a model, the first reason is reported."""
    operators = {"aten.add", "aten.mul"}
    with pytest.raises(ExportError, match=r"lowerings were not applied, because.*data-dependent"):
        export(model(), (torch.rand(2, 3),), exporter="jit.trace", operators=operators, **given)


def test_captured_model_is_lowered_to_an_engines_operators(export, model):
    rewriters = declared("aten.logsumexp", lambda ctx, x, dim: x.exp().sum(dim).log())
    operators = "linear view cat new_zeros full slice exp sum log"
    operators = {f"aten.{name}" for name in f"{operators} expand add mul clone".split()}
    x = torch.rand(2, 4, 6)
    exported = export(model, (x,), rewriters, exporter="jit.trace", operators=operators)
    for result, expected in zip(exported.run(x), model(x), strict=True):
        torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_origin_op_of_an_unsupported_operator_is_the_builtin_lowering(export, exporter):
    twice = declared("aten.digamma", lambda ctx, x: ctx.origin_op(x) * 2, distribution="stranger")
    x = torch.rand(2, 3)
    exported = export(Net(torch.digamma), (x,), twice, exporter=exporter, builtin=True)
    torch.testing.assert_close(exported.run(x)[0], torch.digamma(x) * 2, rtol=1e-5, atol=1e-5)


class Triangle(nn.Module):
    """Uses ``tril_indices``, which no input affects and the TorchScript exporter lacks."""

    def forward(self, x):
        rows, columns = torch.tril_indices(x.shape[-1], x.shape[-1])
        return x[:, rows] + columns


def test_torchscript_exporter_folds_unsupported_operators_of_constants(export):
    x = torch.rand(2, 3)
    exported = export(
        Triangle(), (x,), exporter="torchscript", builtin=True, dynamic={"x": {0: "n"}}
    )
    assert "Gather" in exported.nodes
    for given in (x, torch.rand(4, 3)):
        torch.testing.assert_close(exported.run(given)[0], Triangle()(given))


class Chosen(nn.Module):
    """Writes a number into rows that the input selects: their count is dynamic in the graph."""

    def forward(self, x):
        rows = x[x.sum(1) > 0]
        rows[:, 0] = 1.0
        rows[:, -1] = rows[:, 1]
        return rows.relu()


@pytest.mark.parametrize("exporter", ["torchscript", "jit.trace"])
def test_writes_to_rows_chosen_by_inputs_are_exported(export, exporter):
    x = torch.tensor([[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.5, -0.25, 2.0]])
    rewriters = declared("aten.relu", lambda ctx, x: (x + x.abs()) * 0.5)
    exported = export(Chosen(), (x,), rewriters, exporter=exporter, builtin=True)
    assert "aten.relu" in exported.report.fired
    torch.testing.assert_close(exported.run(x)[0], Chosen()(x))


class Merged(nn.Module):
    """Computes weights from other weights in ``forward``, and stores them."""

    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 1)
        self.merged = nn.Conv2d(2, 2, 3, padding=1)
        self.kernel = None

    def forward(self, x):
        self.kernel = self.wide.weight.data.clone()
        self.kernel = self.kernel + nn.functional.pad(self.narrow.weight.data, [1, 1, 1, 1])
        self.merged.weight.data = self.kernel.contiguous()
        return self.merged(x)


def test_weights_that_forward_writes_are_exported_or_refused(export, exporter):
    """torch 2.13 ends with SIGSEGV when it decomposes its own capture of such a model."""
    model, x = Merged(), torch.randn(1, 2, 4, 4)
    expected = model(x).detach()
    if exporter in ("dynamo", "torch.export"):
        with pytest.raises(ExportError, match=r"torch\.export lost the values of the constant"):
            export(model, (x,), sets(), exporter=exporter)
    else:
        exported = export(model, (x,), sets(), exporter=exporter)
        torch.testing.assert_close(exported.run(x)[0], expected)
