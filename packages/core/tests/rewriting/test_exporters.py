"""Each kind of rewriter under each exporter."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import enginebay as eb
from enginebay.errors import ExportError
from enginebay.rewriting import RewriterSet


class Tokens(nn.Module):
    """Attention in ``nn.MultiheadAttention``, a Tensor method, a property, a Python function."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        x = self.linear(x)
        x = self.attention(x, x, x, need_weights=False)[0]
        return scaled(x.flatten(1)) - x.ndim


def scaled(x):
    return x * 2


@pytest.fixture
def tokens():
    torch.manual_seed(0)
    return Tokens().eval()


def marked(name, change):
    """Rewrite a function to the original plus a change that shows in the output."""
    rewriters = RewriterSet()

    @rewriters.function(name)
    def replacement(ctx, *args, **kwargs):
        return change(ctx.origin_func(*args, **kwargs))

    return rewriters


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("torch.nn.functional.scaled_dot_product_attention", lambda x: x + 1),
        ("torch.nn.functional.multi_head_attention_forward", lambda x: (x[0] + 1, x[1])),
        ("torch.nn.functional.linear", lambda x: x + 1),
        ("torch.Tensor.flatten", lambda x: x + 1),
        ("torch.Tensor.__sub__", lambda x: x + 1),
        ("torch.Tensor.ndim", lambda x: x + 1),
        (f"{__name__}.scaled", lambda x: x + 1),
        (f"{__name__}.Tokens.forward", lambda x: x + 1),
        ("torch.nn.Linear.forward", lambda x: x + 1),
    ],
)
@pytest.mark.one_in(2)
def test_function_rewriters_change_the_exported_outputs(export, exporter, tokens, name, change):
    x = torch.rand(2, 3, 4)
    original = tokens(x)
    rewriters = marked(name, change)
    exported = export(tokens, x, rewriters, exporter=exporter)
    assert exported.report.fired[name] >= 1
    from packages.core.tests.rewriting.contexts import rewrite

    with rewrite(tokens, backend="any", rewriters=[rewriters], builtin=False), torch.no_grad():
        expected = tokens(x)
    assert not torch.allclose(expected, original, atol=1e-3)
    torch.testing.assert_close(exported.run(x)[0], expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(tokens(x), original)


def test_module_rewriters_change_the_exported_outputs(export, exporter, tokens):
    class Plus(nn.Module):
        def __init__(self, ctx, module):
            super().__init__()
            self.inner = module

        def forward(self, x):
            return self.inner(x) + 1

    rewriters = RewriterSet()
    rewriters.module("torch.nn.Linear")(Plus)
    rewriters.module("torch.nn.modules.linear.NonDynamicallyQuantizableLinear")(
        type("P", (Plus,), {})
    )
    x = torch.rand(2, 3, 4)
    original = tokens(x)
    plain = export(tokens, x, exporter=exporter)
    exported = export(tokens, x, rewriters, exporter=exporter)
    assert exported.report.fired["torch.nn.Linear"] == 1
    torch.testing.assert_close(plain.run(x)[0], original, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(exported.run(x)[0], original, atol=1e-3)
    assert torch.equal(tokens(x), original)


def test_functions_without_a_rewriter_are_exported_unchanged(export, exporter, tokens):
    x = torch.rand(2, 3, 4)
    rewriters = marked("torch.Tensor.cumsum", lambda x: x)
    exported = export(tokens, x, rewriters, exporter=exporter)
    torch.testing.assert_close(exported.run(x)[0], tokens(x), atol=1e-5, rtol=1e-5)
    assert exported.report.never_fired == ("torch.Tensor.cumsum",)


@pytest.mark.parametrize(
    ("chosen", "name"),
    [("torchscript", "detach"), ("dynamo", "is_conj"), ("dynamo", "is_inference")],
)
def test_calls_of_exporters_on_weights_are_not_rewritten(export, tokens, chosen, name):
    rewriters = marked(f"torch.Tensor.{name}", lambda answer: answer)
    report = export(tokens, torch.rand(2, 3, 4), rewriters, exporter=chosen).report
    # The default exporter calls it twice on the input; its calls on the six weights do not count.
    assert sum(report.fired.values()) <= 2


def test_rewriter_makes_a_model_exportable(export, exporter):
    """The forward of the model reads a value of its input, which no exporter can know."""

    class Asking(nn.Module):
        def forward(self, x):
            return F.relu(x) if positive(x) else x

    rewriters = RewriterSet()
    rewriters.function(f"{__name__}.positive")(lambda ctx, x: True)
    x = -torch.ones(2, 2)
    exported = export(Asking(), x, rewriters, exporter=exporter)
    assert torch.equal(exported.run(x)[0], torch.zeros(2, 2))


def test_a_failed_export_names_the_line_of_a_rewriter_that_raised(tmp_path):
    rewriters = RewriterSet()

    @rewriters.function("torch.relu")
    def relu(ctx, x):
        raise KeyError("missing")

    options = eb.ExportOptions(rewriters=[rewriters])
    with pytest.raises(ExportError) as caught:
        eb.export(Relu(), torch.ones(2), path=tmp_path / "m.onnx", options=options)
    line = relu.__code__.co_firstlineno + 2
    place = f'(rewriting/test_exporters.py:{line}, in the function rewriter of "torch.relu")'
    assert str(caught.value).count(f"KeyError: 'missing' {place}") == 2


@pytest.mark.parametrize(
    ("backend", "name", "note"),
    [
        (None, "torch.relu", "fired: torch.relu (1)"),
        (None, "torch.selu", "never fired: torch.selu"),
        (
            "absent",
            "torch.relu",
            'the function rewriter of "torch.relu" does nothing: it is for backend absent',
        ),
    ],
)
def test_an_export_reports_the_callers_rewriters(tmp_path, backend, name, note):
    rewriters = RewriterSet(backend=backend)
    rewriters.function(name)(lambda ctx, x: ctx.origin_func(x))
    options = eb.ExportOptions(rewriters=[rewriters])
    model = eb.export(Relu(), torch.ones(2), path=tmp_path / "m.onnx", options=options)
    assert f"rewriters: {note}" in model.notes


class Relu(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def positive(x):
    return bool((x > 0).all())
