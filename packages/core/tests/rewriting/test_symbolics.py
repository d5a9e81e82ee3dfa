from __future__ import annotations

import pytest
import torch
from packages.core.tests.rewriting.contexts import rewrite
from torch import nn

from enginebay import torch_private
from enginebay.errors import ExportError, RewriterError
from enginebay.rewriting import RewriterSet
from enginebay.rewriting.torchscript_symbolics import _NOT_TRACED

both = pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
NO_SYMBOLIC, SCALE = "rewriting_subject.NoSymbolic", "rewriting_subject.Scale"


def in_force(rewriters, **kwargs):
    return rewrite(backend="any", rewriters=[rewriters], builtin=False, **kwargs)


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(1, 2, 3)


def registry_of_torch():
    return torch_private.symbolic_registry()._registry


def registry():
    """Return the functions by which the TorchScript exporter translates each operator."""
    groups = registry_of_torch()
    return {
        name: {opset: group._functions[opset] for opset in group._functions}
        for name, group in groups.items()
        if name != "::Scale"  # torch registers an autograd function's symbolic at its first export
    }


def code():
    apply = vars(torch.autograd.Function)["apply"]
    if isinstance(apply, classmethod):  # since torch 2.14 it is written in C
        apply = apply.__func__.__code__
    return torch.onnx.export.__code__, apply


@pytest.fixture(autouse=True)
def _no_trace(subject):
    before = registry(), code()
    yield
    assert (registry(), code()) == before
    assert "symbolic" not in vars(subject.NoSymbolic)
    names = torch._C._dispatch_get_all_op_names()
    assert not [name for name in names if name.startswith("enginebay")]


@both
def test_operators_become_nodes_of_a_custom_domain(export, exporter, subject, x):
    rewriters = RewriterSet()

    @rewriters.symbolic("gelu", is_pytorch=True, arg_descriptors=["v", "s"])
    def gelu(ctx, g, x, approximate):
        assert ctx.exporter == exporter
        return g.op("my.domain::Gelu", x, approximate_s=approximate, sizes_i=x.type().sizes())

    exported = export(subject.Operators(), x, rewriters, exporter=exporter)
    assert exported.nodes[0] == "my.domain::Gelu"
    assert exported.opsets["my.domain"] == 1
    assert exported.opsets[""] >= 18
    assert exported.attributes("Gelu") == {"approximate": b"tanh", "sizes": [1, 2, 3]}
    assert exported.report.fired == {"gelu": 1}


@both
def test_origin_func_is_the_exporters_own_translation(export, exporter, subject, x):
    rewriters = RewriterSet()

    @rewriters.symbolic("aten::relu", is_pytorch=True)
    def relu(ctx, g, x):
        return g.op("Add", ctx.origin_func(g, x), torch.tensor(2.0))

    @rewriters.symbolic("gelu", is_pytorch=True)
    def gelu(ctx, g, *args):
        return g.op("Mul", ctx.origin_func(g, *args), torch.tensor(2.0))

    exported = export(subject.Operators(), x, rewriters, exporter=exporter)
    expected = ((2 * torch.nn.functional.gelu(x, approximate="tanh")).relu() + 2).squeeze(0) * 3
    torch.testing.assert_close(exported.run(x)[0], expected)
    assert exported.report.fired == {"aten::relu": 1, "gelu": 1}


@both
def test_squeeze_example_of_the_guide_exports_correctly(export, exporter, subject, x):
    from torch.onnx import symbolic_helper as sym_help

    rewriters = RewriterSet()

    @rewriters.symbolic("squeeze", is_pytorch=True)
    def squeeze_default(ctx, g, self, dim=None):
        if dim is None:
            dims = [i for i, size in enumerate(self.type().sizes()) if size == 1]
        else:
            dims = [sym_help._get_const(dim, "i", "dim")]
        return g.op("Squeeze", self, g.op("Constant", value_t=torch.tensor(dims)))

    for model in (subject.Operators(), Squeeze()):
        exported = export(model, x, rewriters, exporter=exporter)
        torch.testing.assert_close(exported.run(x)[0], model(x))
        assert exported.report.fired == {"squeeze": 1}


class Squeeze(nn.Module):
    def forward(self, x):
        return x.squeeze() + 1


@both
def test_symbolic_may_return_several_outputs(export, exporter):
    rewriters = RewriterSet()

    @rewriters.symbolic("topk", is_pytorch=True, arg_descriptors=["v", "i", "i", "b", "b"])
    def topk(ctx, g, x, k, dim, largest, is_sorted):
        sizes = g.op("Constant", value_t=torch.tensor([k]))
        return g.op("TopK", x, sizes, axis_i=dim, largest_i=0, outputs=2)

    class Model(nn.Module):
        def forward(self, x):
            values, indices = x.topk(2)
            return values, indices

    x = torch.tensor([[3.0, 1.0, 2.0]])
    exported = export(Model(), x, rewriters, exporter=exporter)
    values, indices = exported.run(x)
    assert values.tolist() == [[1.0, 2.0]]
    assert indices.tolist() == [[1, 2]]


@both
@pytest.mark.parametrize("name", [SCALE, NO_SYMBOLIC])
def test_autograd_functions_are_rewritten_by_full_path(export, exporter, subject, x, name):
    rewriters = RewriterSet()

    @rewriters.symbolic(name)
    def node(ctx, g, x, factor=0.0):
        return g.op("my.domain::Node", x, factor_f=factor)

    exported = export(subject.Operators(), x, rewriters, exporter=exporter)
    assert "my.domain::Node" in exported.nodes
    assert exported.attributes("Node") == {"factor": 3.0 if name == SCALE else 0.0}
    assert exported.opsets["my.domain"] == 1
    assert exported.report.fired == {name: 1}


@both
def test_origin_func_of_an_autograd_function_is_its_own_symbolic(export, exporter, subject, x):
    rewriters = RewriterSet()

    @rewriters.symbolic(SCALE)
    def twice(ctx, g, x, factor):
        return ctx.origin_func(g, ctx.origin_func(g, x, factor), factor)

    exported = export(subject.Operators(), x, rewriters, exporter=exporter)
    torch.testing.assert_close(exported.run(x)[0], subject.Operators()(x) * 3)


def test_autograd_symbolics_support_any_arguments_and_outputs(export, subject):
    rewriters, seen = RewriterSet(), []

    @rewriters.symbolic("rewriting_subject.Swap")
    def swap(ctx, g, tensors, size, flag=True):
        seen.append((len(tensors), flag))
        flat = g.op("Reshape", tensors[0], g.op("Constant", value_t=torch.tensor([-1])))
        return g.op("Identity", tensors[1]), flat

    class Model(nn.Module):
        def forward(self, x, y):
            a, nothing, b = subject.Swap.apply([x, y], x.shape[0], False)
            assert nothing is None
            return a * 2, b

    x, y = torch.rand(2, 3), torch.rand(2)
    exported = export(Model(), (x, y), rewriters, dynamic={"x": {0: "n"}, "y": {0: "n"}})
    assert seen == [(2, False)]
    for rows in (2, 5):
        x, y = torch.rand(rows, 3), torch.rand(rows)
        for result, expected in zip(exported.run(x, y), (y * 2, x.view(-1)), strict=True):
            torch.testing.assert_close(result, expected)


def test_autograd_function_is_not_rewritten_outside_an_export(subject):
    rewriters = RewriterSet()
    rewriters.symbolic(NO_SYMBOLIC)(lambda ctx, g, x: None)
    with in_force(rewriters, exporter="dynamo") as rewriting:
        assert subject.NoSymbolic.apply(-torch.ones(1)) == 1
    assert rewriting.report.never_fired == (NO_SYMBOLIC,)


@both
def test_custom_operator_is_exported_only_with_a_symbolic(export, exporter):
    library = torch.library.Library("rewriting_ops", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    torch.library.register_fake("rewriting_ops::twice", lambda x: x * 2, lib=library)
    rewriters = RewriterSet()

    @rewriters.symbolic("rewriting_ops::twice", is_pytorch=True)
    def twice(ctx, g, x):
        return g.op("Mul", x, torch.tensor(2.0))

    class Model(nn.Module):
        def forward(self, x):
            return torch.ops.rewriting_ops.twice(x)

    x = torch.rand(2)
    try:
        with pytest.raises(ExportError):
            export(Model(), x, exporter=exporter)
        exported = export(Model(), x, rewriters, exporter=exporter)
        torch.testing.assert_close(exported.run(x)[0], x * 2)
    finally:
        library._destroy()


@both
def test_symbolics_of_nested_contexts_stack(export, exporter, subject, x):
    def plus(amount):
        rewriters = RewriterSet()

        @rewriters.symbolic("relu", is_pytorch=True)
        def relu(ctx, g, x):
            return g.op("Add", ctx.origin_func(g, x), torch.tensor(float(amount)))

        return rewriters

    with in_force(plus(1), exporter=exporter) as outer:
        exported = export(subject.Operators(), x, plus(10), exporter=exporter)
    plain = export(subject.Operators(), x, exporter=exporter)
    torch.testing.assert_close(exported.run(x)[0], plain.run(x)[0] + 33)
    assert outer.report.fired == exported.report.fired == {"relu": 1}


@both
def test_torch_onnx_export_uses_symbolics_inside_a_context(exporter, subject, x):
    import io
    import warnings

    import onnx

    rewriters = RewriterSet()
    rewriters.symbolic("relu", is_pytorch=True)(lambda ctx, g, x: g.op("my.domain::Relu", x))
    rewriters.symbolic(SCALE)(lambda ctx, g, x, factor: g.op("my.domain::Scale", x))
    file = io.BytesIO()
    with in_force(rewriters) as rewriting, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = subject.Operators().eval()
        torch.onnx.export(model, (x,), file, dynamo=exporter == "dynamo", verbose=False)
    nodes = [node.domain for node in onnx.load_from_string(file.getvalue()).graph.node]
    assert nodes.count("my.domain") == 2
    assert rewriting.report.fired == {"relu": 1, SCALE: 1}


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch's own
def test_custom_translation_table_wins_over_symbolics(subject, x):
    from onnxscript import opset20 as op

    rewriters = RewriterSet()
    rewriters.symbolic("relu", is_pytorch=True)(lambda ctx, g, x: g.op("my.domain::Relu", x))
    table = {torch.ops.aten.relu.default: lambda x: op.Abs(x)}
    with in_force(rewriters, exporter="dynamo") as rewriting:
        program = torch.onnx.export(
            subject.Operators().eval(), (x,), verbose=False, custom_translation_table=table
        )
    assert "Abs" in [node.op_type for node in program.model.graph]
    assert rewriting.report.never_fired == ("relu",)


_SHRINK = torch.nn.functional.hardshrink
_STATISTICS = (torch.zeros(3), torch.ones(3))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch's own
@pytest.mark.parametrize(
    ("name", "call", "reason"),
    [
        ("hardshrink", _SHRINK, "torch.export decomposes aten::hardshrink first"),
        (
            "batch_norm",
            lambda x: torch.nn.functional.batch_norm(x, *_STATISTICS),
            "torch.export decomposes aten::batch_norm first",
        ),
        ("flatten", lambda x: x.flatten(1), "torch.export decomposes aten::flatten first"),
        (
            "_convolution",
            lambda x: torch.nn.functional.conv1d(x, torch.ones(2, 3, 1)),
            "graphs contain conv1d, conv2d, conv3d and conv_transpose1d, 2d and 3d instead",
        ),
        ("conv1d", lambda x: torch.nn.functional.conv1d(x, torch.ones(2, 3, 1)), None),
        ("relu", torch.relu, None),
        ("transpose", lambda x: x.transpose(1, 2), None),
    ],
)
@pytest.mark.one_in(2)
def test_symbolics_that_never_fire_in_dynamo_are_reported(name, call, reason) -> None:
    """Check against the exporter which symbolics fire and which never do."""

    class Model(torch.nn.Module):
        def forward(self, x):
            return call(x)

    rewriters = RewriterSet(distribution="a-pack")
    rewriters.symbolic(name, is_pytorch=True)(lambda ctx, g, x, *rest: g.op("Identity", x))
    with in_force(rewriters, exporter="dynamo") as rewriting:
        torch.onnx.export(Model().eval(), (torch.ones(1, 3, 4),), verbose=False)
    report = rewriting.report
    if reason is None:
        assert report.fired == {name: 1}
        return
    assert not report.fired
    start = f'the symbolic of "{name}" does nothing in the dynamo exporter: {reason}; '
    assert report.not_served == (f"{start}export with the torchscript exporter",)


@pytest.mark.parametrize(
    ("name", "is_pytorch", "target", "line"),
    [
        (
            "no_such_operator",
            True,
            {"exporter": "dynamo"},
            (
                'the symbolic of "no_such_operator" does nothing in the dynamo exporter: '
                "torch.ops has no such operator"
            ),
        ),
        (
            "relu",
            True,
            {"ir": "torchscript"},
            'the symbolic of "relu" does nothing: symbolics create ONNX nodes, not torchscript',
        ),
        (
            SCALE,
            False,
            {"ir": "exported_program"},
            (
                f'the symbolic of "{SCALE}" does nothing: '
                "symbolics create ONNX nodes, not exported_program"
            ),
        ),
    ],
)
def test_symbolics_that_cannot_be_served_are_reported(name, is_pytorch, target, line):
    rewriters = RewriterSet(distribution="a-pack")
    rewriters.symbolic(name, is_pytorch=is_pytorch)(lambda ctx, g, x: x)
    with in_force(rewriters, **target) as rewriting:
        pass
    assert rewriting.report.not_served == (line,)
    assert rewriting.report.applied == ()
    with pytest.raises(RewriterError) as caught, in_force(rewriters, strict=True, **target):
        pass
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("name", "exporter", "reason"),
    [
        ("hardshrink", "dynamo", "torch.export decomposes aten::hardshrink first"),
        ("conv1d", "torchscript", "the tracer records _convolution instead"),
    ],
)
def test_callers_symbolic_that_never_fires_is_refused(name, exporter, reason):
    other = {"dynamo": "torchscript", "torchscript": "dynamo"}[exporter]
    rewriters = RewriterSet()
    rewriters.symbolic(name, is_pytorch=True)(lambda ctx, g, x, *rest: g.op("Identity", x))
    with pytest.raises(ExportError) as caught, in_force(rewriters, exporter=exporter):
        pass
    assert str(caught.value) == (
        f'the symbolic of "{name}" does nothing in the {exporter} exporter: {reason}; '
        f"export with the {other} exporter"
    )
    with in_force(rewriters, exporter=other) as rewriting:
        assert rewriting.report.never_fired == (name,)


@pytest.mark.filterwarnings("ignore:`torch.jit")  # its category depends on the version of torch
@pytest.mark.parametrize("name", sorted(_NOT_TRACED))
def test_tracer_records_convolution_instead_of_the_listed_operators(name):
    """Check the table _NOT_TRACED against the tracer."""
    rank = int(name[-2]) if name.endswith("d") else 1
    weight, x = torch.ones(3, 3, *[1] * rank), torch.ones(1, 3, *[4] * rank)
    rest = [None, [1] * rank, [0] * rank, [1] * rank, False, [0] * rank, 1]
    more = rest if name == "aten::convolution" else []

    class Model(nn.Module):
        def forward(self, x):
            return getattr(torch, name.removeprefix("aten::"))(x, weight, *more)

    kinds = {node.kind() for node in torch.jit.trace(Model(), (x,)).graph.nodes()}
    assert "aten::_convolution" in kinds
    assert name not in kinds


class Lowered(nn.Module):
    """Autograd functions, and an operator that Enginebay lowers for the TorchScript exporter."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        from rewriting_subject import NoSymbolic, Scale

        turned = torch.atan2(NoSymbolic.apply(x), Scale.apply(x, 3.0))
        return turned + Scale.apply(self.weight, 2.0)


@both
def test_symbolics_fire_in_models_with_lowered_operators(export, exporter, subject, x):
    rewriters = RewriterSet()
    rewriters.symbolic(NO_SYMBOLIC)(lambda ctx, g, x: g.op("my.domain::None", x))
    rewriters.symbolic(SCALE)(lambda ctx, g, x, factor: g.op("my.domain::Scale", x, by_f=factor))
    exported = export(
        Lowered(), (x,), rewriters, exporter=exporter, builtin=True, dynamic={"x": {1: "n"}}
    )
    assert exported.report.fired == {NO_SYMBOLIC: 1, SCALE: 2, "aten.atan2": 1}
    assert {"my.domain::None", "my.domain::Scale", "Atan"} <= set(exported.nodes)


def test_own_symbolic_is_used_in_models_with_lowered_operators(export, x):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def symbolic(g, x):
            return g.op("my.domain::Own", x)

    class Model(nn.Module):
        def forward(self, x):
            return torch.atan2(Own.apply(x), x)

    exported = export(Model(), (x,), exporter="torchscript", builtin=True)
    registry_of_torch().pop("::Own")
    assert "my.domain::Own" in exported.nodes


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("roll", lambda x: x.roll(1, -1)),
        ("adaptive_avg_pool2d", lambda x: torch.nn.functional.adaptive_avg_pool2d(x, (1, 2))),
        ("atan2", lambda x: torch.atan2(x, x)),
        ("hypot", lambda x: torch.hypot(x, x)),
        ("linspace", lambda x: torch.linspace(0, 1, x.shape[1])),
    ],
)
@both
def test_callers_symbolic_wins_over_builtin_rewriters(export, exporter, x, name, call):
    class Model(nn.Module):
        def forward(self, x):
            return call(x) + 1

    rewriters = RewriterSet()
    rewriters.symbolic(name, is_pytorch=True)(lambda ctx, g, *_: g.op("my.domain::Own"))
    # The TorchScript exporter folds operators that no input affects.
    dynamic = {"x": {1: "n"}} if (name, exporter) == ("linspace", "torchscript") else None
    exported = export(Model(), (x,), rewriters, exporter=exporter, builtin=True, dynamic=dynamic)
    assert exported.report.fired == {name: 1}
    assert "my.domain::Own" in exported.nodes


def test_has_symbolic_is_evaluated_anew_in_each_context():
    from enginebay.rewriting import has_symbolic

    rewriters = RewriterSet()
    rewriters.symbolic("hypot", is_pytorch=True)(lambda ctx, g, x, y: x)
    hypot = torch.ops.aten.hypot.default
    answers = [has_symbolic(hypot, False)]
    with in_force(rewriters, exporter="torchscript"):
        answers.append(has_symbolic(hypot, False))
    assert [*answers, has_symbolic(hypot, False)] == [False, True, False]


def test_symbolic_of_a_module_class_is_refused():
    rewriters = RewriterSet()
    rewriters.symbolic("torch.nn.Linear")(lambda ctx, g, x: x)
    with pytest.raises(RewriterError) as caught, in_force(rewriters):
        pass
    assert str(caught.value) == (
        'the symbolic rewriter of "torch.nn.Linear" does not have the name of a '
        "torch.autograd.Function"
    )
    assert (
        caught.value.hint == "add is_pytorch=True for an operator, or use .function for a function"
    )


def test_misspelt_autograd_function_is_refused():
    rewriters = RewriterSet()
    rewriters.symbolic("rewriting_subject.Skale")(lambda ctx, g, x: x)
    with pytest.raises(RewriterError) as caught, in_force(rewriters):
        pass
    assert str(caught.value) == (
        '"rewriting_subject.Skale" was not found: "rewriting_subject" has no "Skale" '
        '(did you mean "Scale"?)'
    )


@both
def test_tie_under_two_names_of_an_operator_is_refused(exporter):
    rewriters = RewriterSet()
    for name in ("relu", "aten::relu"):
        rewriters.symbolic(name, is_pytorch=True)(lambda ctx, g, x: x)
    with (
        pytest.raises(
            RewriterError, match='two equally specific symbolic rewriters are for "relu"'
        ),
        in_force(rewriters, exporter=exporter),
    ):
        pass


@both
def test_missing_origin_func_is_an_error(export, exporter, subject, x):
    rewriters = RewriterSet()
    rewriters.symbolic(NO_SYMBOLIC)(lambda ctx, g, x: ctx.origin_func(g, x))
    with pytest.raises((ExportError, RewriterError)) as caught:
        export(subject.Operators(), x, rewriters, exporter=exporter)
    assert (
        f'ctx.origin_func was called for "{NO_SYMBOLIC}", but torch has no symbolic for it'
    ) in str(caught.value)


def test_graph_tensor_as_an_attribute_is_refused(export, subject, x):
    rewriters = RewriterSet()
    rewriters.symbolic("relu", is_pytorch=True)(lambda ctx, g, x: g.op("Relu", x, axis_i=x))
    with pytest.raises((ExportError, RewriterError)) as caught:
        export(subject.Operators(), x, rewriters)
    assert (
        'the symbolic of "relu" passes a tensor of the graph as the attribute "axis" of Relu, '
        "expected a constant"
    ) in str(caught.value)
