from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import torch
from packages.core.tests.rewriting.contexts import rewrite
from packages.core.tests.rewriting.lowered import Net, declared, lower, targets

from enginebay.errors import RewriterError
from enginebay.ir import quiet
from enginebay.rewriting import RewriterSet, active_lowerings, list_rewriters

X = torch.rand(2, 3)


def plus(number):
    """Return a lowering that adds a number, which shows that it ran."""

    def lowering(ctx, x, *args, **kwargs):
        return torch.add(ctx.origin_op(x, *args, **kwargs), number)

    lowering.__qualname__ = f"plus_{number}"
    return lowering


def applied(*sets, function=torch.relu, **target):
    """Return the number that the selected lowering added, or None if no lowering fired."""
    program, _ = lower(function, (X,), *sets, **target)
    added = [node.args[1] for node in program.graph.nodes if str(node.target) == "aten.add.Tensor"]
    return added[0] if added else None


def yes(target):
    return True


@pytest.mark.parametrize(
    ("conditions", "fires"),
    [
        ({}, True),
        ({"backend": "any"}, True),
        ({"backend": "other"}, False),
        ({"ir": "exported_program"}, True),
        ({"ir": "onnx"}, False),
        ({"versions": {"torch": ">=2"}}, True),
        ({"versions": {"torch": "<1"}}, False),
        ({"check": lambda target: target.operators is None}, True),
        ({"check": lambda target: target.opset == 12}, False),
        ({"needs": ("dims",)}, True),
        ({"needs": ("lacking",)}, False),
    ],
)
def test_lowering_fires_only_if_its_conditions_hold(conditions, fires):
    assert applied(declared("aten.relu", plus(1), **conditions)) == (1 if fires else None)


LADDER = [
    {},
    {"name": "aten.relu.default"},
    {"needs": ("dims",)},
    {"check": yes},
    {"ir": "exported_program"},
    {"backend": "any"},
    {"backend": "any", "name": "aten.relu.default"},
]


@pytest.mark.parametrize("low", range(len(LADDER) - 1))
def test_most_specific_lowering_wins_also_by_its_overload(low):
    sets = [
        declared(**{"name": "aten.relu"} | LADDER[step], replacement=plus(step))
        for step in (low + 1, low)
    ]
    assert applied(*sets) == low + 1


def test_lowering_of_an_overload_does_not_serve_other_overloads():
    sets = [
        declared("aten.amax", lambda ctx, x, dim=(), keepdim=False: ctx.origin_op(x, dim, keepdim)),
        declared("aten.sum", plus(1)),
        declared("aten.sum.dim_IntList", plus(2)),
    ]
    assert applied(*sets, function=lambda x: x.sum(1)) == 2
    assert applied(*sets, function=lambda x: x.sum()) == 1


def test_callers_lowering_beats_plugins_and_plugins_beat_fallbacks():
    core = declared("aten.relu", plus(1), backend="any", fallback=True)
    plugin = declared("aten.relu", plus(2), distribution="a-pack")
    caller = declared("aten.relu", plus(3))
    assert applied(core) == 1
    assert applied(core, plugin) == 2
    assert applied(caller, core, plugin) == 3


def test_error_names_both_of_two_equally_specific_lowerings():
    sets = [declared("aten.relu", plus(1)), declared("aten.relu", plus(2))]
    with pytest.raises(RewriterError) as caught:
        applied(*sets)
    assert str(caught.value) == (
        'two equally specific lowering rewriters are for "aten.relu": '
        f"{__name__}.plus_1 (always) and {__name__}.plus_2 (always)"
    )
    assert active_lowerings() is None


def test_lowering_for_fixed_sizes_is_skipped_for_dynamic_sizes():
    sets = [declared("aten.relu", plus(1), needs=("dims",)), declared("aten.relu", plus(2))]
    dynamic = ({0: torch.export.Dim("batch", min=2)},)
    assert applied(*sets) == 1
    assert applied(*sets, dynamic=dynamic) == 2
    program, report = lower(torch.relu, (X,), sets[0], dynamic=dynamic)
    assert targets(program) == ["aten.relu.default"]
    assert report.never_fired == ("aten.relu",)


def test_needs_lacking_holds_for_an_operator_missing_in_operators():
    lowering = declared("aten.relu", lambda ctx, x: x.clamp(min=0), needs=("lacking",))
    for operators, expected in (
        (None, ["aten.relu.default"]),
        ({"aten.relu", "aten.clamp"}, ["aten.relu.default"]),
        ({"aten.clamp"}, ["aten.clamp.default"]),
        ({"aten.clamp.default", "aten.relu.other"}, ["aten.clamp.default"]),
    ):
        program, _ = lower(torch.relu, (X,), lowering, operators=operators)
        assert targets(program) == expected


def test_needs_lacking_holds_for_an_operator_listed_in_lacking():
    lowering = declared("aten.relu", lambda ctx, x: x.clamp(min=0), needs=("lacking",))
    program, _ = lower(torch.relu, (X,), lowering, lacking={"aten.relu"})
    assert targets(program) == ["aten.clamp.default"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aten.rond", '"aten.rond": torch.ops has no "aten.rond" (did you mean "round"?)'),
        ("aten.max.dims", '"aten.max.dims": "aten.max" has no overload "dims"'),
        ("round", '"round": expected "aten.round"'),
        ("rond", '"rond": torch.ops has no "aten.rond" (did you mean "round"?)'),
    ],
)
def test_unknown_names_in_lacking_are_refused(name, message):
    with pytest.raises(RewriterError) as caught:
        lower(torch.relu, (X,), lacking={name})
    assert str(caught.value).startswith(f"BackendInfo.lacking of 'any' contains {message}")


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: x.index_put((torch.tensor([1]),), torch.tensor(9.0)), "aten.index_put"),
        (
            lambda x: x.scatter_reduce(1, torch.tensor([[0], [2]]), x[:, :1] + 5, "amax"),
            "aten.scatter_reduce",
        ),
        (
            lambda x: x.scatter_reduce(1, torch.tensor([[0], [2]]), x[:, :1] + 5, "mean"),
            "aten.scatter_reduce",
        ),
    ],
)
def test_lacking_operators_are_lowered_despite_corrections_for_onnx(function, operator):
    """The built-in lowerings for ONNX call ``ctx.origin_op``, which the engine lacks."""
    lacking = {operator, "aten.scatter_add"}
    program, _ = lower(function, (X,), ir="onnx", lacking=lacking, builtin=True)
    assert not [each for each in targets(program) if each.rpartition(".")[0] in lacking]
    torch.testing.assert_close(program.module()(X), function(X))


def test_operators_of_unloaded_libraries_may_be_lacking():
    lower(torch.relu, (X,), lacking={"of_nobody.thing"})


def test_operator_without_a_lowering_is_decomposed_by_torch():
    program, _ = lower(
        torch.nn.Hardswish(), (X,), operators={"aten.add", "aten.clamp", "aten.mul", "aten.div"}
    )
    assert {each.split(".")[1] for each in targets(program)} <= {"add", "clamp", "mul", "div"}
    torch.testing.assert_close(program.module()(X), torch.nn.functional.hardswish(X))


def test_operators_that_a_lowering_calls_are_lowered_too():
    sets = [
        declared("aten.logsumexp", lambda ctx, x, dim, keep=False: x.exp().sum(dim, keep).log()),
        declared("aten.exp", lambda ctx, x: torch.pow(torch.e, x)),
    ]
    program, report = lower(lambda x: torch.logsumexp(x, [1]), (X,), *sets)
    assert targets(program) == ["aten.pow.Scalar", "aten.sum.dim_IntList", "aten.log.default"]
    assert report.fired == {"aten.logsumexp": 1, "aten.exp": 1}
    torch.testing.assert_close(program.module()(X), torch.logsumexp(X, [1]))


def test_report_counts_lowered_operators_and_lists_unused_lowerings():
    sets = [declared("aten.relu", plus(0)), declared("aten.sort", plus(0))]
    _, report = lower(lambda x: torch.relu(x) + torch.relu(-x), (X,), *sets)
    assert report.fired == {"aten.relu": 2}
    assert report.never_fired == ("aten.sort",)
    assert report.lines() == [
        "lowering aten.relu: fired 2 times",
        "lowering aten.sort: never fired",
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("aten.rellu", 'torch.ops has no "aten.rellu" (did you mean "relu"?)'),
        ("atn.relu", 'torch.ops has no "atn.relu" (did you mean "aten"?)'),
        ("aten.max.dims", '"aten.max" has no overload "dims" (did you mean "dim"?)'),
    ],
)
def test_unknown_operator_is_reported_with_the_nearest_name(name, reason):
    program, report = lower(torch.relu, (X,), declared(name, plus(1)))
    assert targets(program) == ["aten.relu.default"]
    line = f'the lowering of "{name}" was not used: {reason}'
    assert report.not_found == (line,)
    with pytest.raises(RewriterError) as caught:
        lower(torch.relu, (X,), declared(name, plus(1)), strict=True)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("aten.reshape", "torch.export decomposes the operator first"),
        ("aten.dropout", "torch.export decomposes the operator first"),
        ("aten.hardshrink", "torch.export decomposes the operator first"),
        ("aten.relu_", "a captured graph has no operators that write to their arguments"),
    ],
)
def test_operator_that_captured_graphs_never_contain_is_reported(name, why):
    _, report = lower(torch.relu, (X,), declared(name, plus(1)))
    assert report.not_served == (f'the lowering of "{name}" does nothing: {why}',)
    with pytest.raises(RewriterError, match="does nothing"):
        lower(torch.relu, (X,), declared(name, plus(1)), strict=True)


def context(*sets):
    return rewrite(backend="any", ir="exported_program", rewriters=sets, builtin=False)


def test_nested_contexts_apply_both_lowerings_inner_first():
    from enginebay.rewriting import lower_program

    program = torch.export.export(Net(lambda x: torch.relu(x).exp()), (X,))
    outer = context(declared("aten.relu", plus(1)), declared("aten.exp", plus(2)))
    with quiet(), outer, context(declared("aten.relu", plus(3))) as inner:
        both = lower_program(program, active_lowerings())
    # origin_op of the inner lowering is the outer lowering, like origin_func of functions.
    assert targets(both) == [
        "aten.relu.default",
        "aten.add.Tensor",
        "aten.add.Tensor",
        "aten.exp.default",
        "aten.add.Tensor",
    ]
    assert outer.report.fired == {"aten.relu": 1, "aten.exp": 1}
    assert inner.report.fired == {"aten.relu": 1}


def test_contexts_may_end_in_any_order_and_after_an_error():
    first, second = context(declared("aten.relu", plus(1))), context(declared("aten.relu", plus(2)))
    first.__enter__()
    outer = active_lowerings()
    second.__enter__()
    assert active_lowerings() is not outer
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert active_lowerings() is None
    with pytest.raises(ZeroDivisionError), context(declared("aten.relu", plus(1))):
        _ = 1 / 0
    assert active_lowerings() is None


def test_context_is_active_only_in_its_own_thread():
    seen = []
    with context(declared("aten.relu", plus(1))):
        thread = threading.Thread(target=lambda: seen.append(active_lowerings()))
        thread.start()
        thread.join()
        assert active_lowerings() is not None
    assert seen == [None]


def test_list_rewriters_shows_the_fallback_of_a_conditional_lowering():
    rewriters = RewriterSet()
    rewriters.lowering("aten.relu", needs=("dims",))(plus(1))
    rewriters.lowering("aten.relu")(plus(2))
    rewriters.lowering("aten.relu", backend="other")(plus(3))
    listed = list_rewriters([rewriters], backend="any", ir="exported_program")
    assert [(each.kind, each.condition) for each in listed] == [
        ("lowering", "fixed sizes"),
        ("lowering", "always"),
    ]


def test_lowering_for_lacking_operators_serves_exporters_that_lack_them():
    """The default ONNX exporter does not translate ``nanmedian``, nor does torch decompose it."""
    rewriters = RewriterSet()

    @rewriters.lowering("aten.nanmedian", needs=["lacking"])
    def largest(ctx, x):
        return x.amax(0)

    @rewriters.lowering("aten.relu", needs=["lacking"])
    def unused(ctx, x):
        return x

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.nanmedian(x.relu())

    with quiet(), rewrite(Model(), backend="any", rewriters=[rewriters]) as rewriting:
        program = torch.onnx.export(rewriting.model, (torch.randn(4),), dynamo=True, verbose=False)
    assert [node.op_type for node in program.model.graph] == ["Relu", "ReduceMax"]
    assert rewriting.report.fired == {"aten.nanmedian": 1}
    assert "aten.relu" not in rewriting.report.never_fired


SMALL = frozenset(f"aten.{name}" for name in ("add", "mul", "abs", "sum", "sqrt", "pow"))


@pytest.mark.parametrize("sizes", ["fixed", "dynamic"])
def test_origin_op_of_a_plugins_lowering_is_the_builtin_lowering(sizes):
    rewriters = declared("aten.linalg_vector_norm", plus(1), distribution="stranger")
    dynamic = ({0: torch.export.Dim("batch", min=2)},) if sizes == "dynamic" else None
    program, report = lower(
        torch.linalg.vector_norm, (X,), rewriters, dynamic=dynamic, operators=SMALL, builtin=True
    )
    torch.testing.assert_close(program.module()(X), X.norm() + 1)
    assert {"aten.linalg_vector_norm"} == set(report.fired)
    assert not any("vector_norm" in each for each in targets(program))


@pytest.mark.process
def test_names_of_lacking_operators_are_checked_before_torch_is_loaded() -> None:
    code = (
        "import sys\n"
        "from enginebay.rewriting.lowering import choose_lowerings\n"
        "from enginebay.rewriting.rewriter import Rewriter, Target\n"
        "rewriter = Rewriter('lowering', 'aten.relu', print, needs=('lacking',))\n"
        "assert 'torch' not in sys.modules\n"
        "print(choose_lowerings([rewriter], Target(backend='x')).selection.not_found)\n"
        "choice = choose_lowerings([rewriter], Target(backend='x', lacking=('aten.relu',)))\n"
        "print(*choice.winners)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    missing, found = ran.stdout.splitlines()
    assert 'no module "torch" is loaded' in missing
    assert found == "aten.relu.default"
