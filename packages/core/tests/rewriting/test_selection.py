from __future__ import annotations

from importlib.metadata import version

import pytest
import torch
from hypothesis import given, strategies as st
from packages.core.tests.rewriting.contexts import rewrite

from enginebay.errors import RewriterError
from enginebay.rewriting import RewriterSet, Target, list_rewriters

NAME = "rewriting_subject.double"


def declare(rewriters, label, name=NAME, **conditions):
    def replacement(ctx, *args, **kwargs):
        return label

    replacement.__qualname__ = label
    rewriters.function(name, **conditions)(replacement)
    return rewriters


def declared(label, **conditions):
    return declare(RewriterSet(), label, **conditions)


def chosen(subject, *sets, backend="ncnn", **target):
    with rewrite(backend=backend, rewriters=sets, builtin=False, **target):
        return subject.double(1)


def yes(target):
    return True


#: From the least to the most specific.
LADDER = [
    ("default", {}),
    ("check", {"check": yes}),
    ("versions", {"versions": {"torch": ">=2"}}),
    ("ir", {"ir": "onnx"}),
    ("ir and versions", {"ir": "onnx", "versions": {"torch": ">=2"}}),
    ("backend", {"backend": "ncnn"}),
    ("backend and check", {"backend": "ncnn", "check": yes}),
    ("backend and ir", {"backend": "ncnn", "ir": "onnx"}),
]


@given(picked=st.lists(st.sampled_from(range(len(LADDER))), min_size=1, unique=True))
def test_most_specific_rewriter_wins_in_any_declaration_order(picked):
    import sys

    rewriters = RewriterSet()
    for index in picked:
        label, conditions = LADDER[index]
        declare(rewriters, label, **conditions)
    assert chosen(sys.modules["rewriting_subject"], rewriters) == LADDER[max(picked)][0]


@pytest.mark.parametrize(
    ("conditions", "applies"),
    [
        ({"backend": "ncnn"}, True),
        ({"backend": "tensorrt"}, False),
        ({"ir": "onnx"}, True),
        ({"ir": "torchscript"}, False),
        ({"versions": {"torch": f"=={version('torch')}"}}, True),
        ({"versions": {"torch": "<1"}}, False),
        ({"versions": {"torch": ">1", "onnx": "<1"}}, False),
        ({"versions": {"no-such-distribution": ">=0"}}, False),
        ({"check": lambda target: target.backend == "ncnn"}, True),
        ({"check": lambda target: target.config.get("small")}, False),
    ],
)
def test_rewriter_applies_only_if_its_conditions_hold(subject, conditions, applies):
    expected = "conditional" if applies else "default"
    both = [declared("default"), declared("conditional", **conditions)]
    assert chosen(subject, *both) == expected
    alone = chosen(subject, declared("conditional", **conditions))
    assert alone == ("conditional" if applies else 2)


def test_a_check_sees_the_whole_target(subject):
    seen = []

    def check(target):
        seen.append(target)
        return True

    chosen(
        subject,
        declared("checked", check=check),
        ir="torchscript",
        opset=17,
        exporter="torchscript",
        config={"a": 1},
        batch=2,
    )
    assert seen == [
        Target(
            backend="ncnn",
            ir="torchscript",
            opset=17,
            exporter="torchscript",
            config={"a": 1},
            options={"batch": 2},
        )
    ]


def test_error_names_both_of_two_equally_specific_rewriters(subject):
    first = declared("first", backend="ncnn").from_distribution("pack-one")
    second = declared("second", backend="ncnn").from_distribution("pack-two")
    with pytest.raises(RewriterError) as caught:
        chosen(subject, first, second)
    assert str(caught.value) == (
        f'two equally specific function rewriters are for "{NAME}": '
        f"{__name__}.first of pack-one (backend ncnn) and "
        f"{__name__}.second of pack-two (backend ncnn)"
    )
    assert caught.value.hint == (
        "add a condition to one of them: backend=, ir=, versions= or check="
    )
    assert subject.double(1) == 2


def test_a_tie_below_the_winner_does_not_matter(subject):
    sets = [declared("a"), declared("b"), declared("winner", backend="ncnn")]
    assert chosen(subject, *sets) == "winner"


def test_tie_under_two_names_of_a_function_is_refused():
    sets = [
        declared("a", name="torch.nn.functional.scaled_dot_product_attention"),
        declared("b", name="torch._C._nn.scaled_dot_product_attention"),
    ]
    with (
        pytest.raises(RewriterError, match="two equally specific"),
        rewrite(backend="any", rewriters=sets, builtin=False),
    ):
        pass


def test_callers_rewriter_wins_over_an_equally_specific_plugin(subject):
    plugin = declared("plugin", backend="ncnn").from_distribution("enginebay-ncnn")
    assert chosen(subject, plugin, declared("caller", backend="ncnn")) == "caller"
    assert chosen(subject, declared("caller", backend="ncnn"), plugin) == "caller"


def test_fallbacks_lose_to_all_others(subject):
    fallbacks = RewriterSet(fallback=True)
    declare(fallbacks, "fallback", backend="ncnn", ir="onnx")
    shipped = fallbacks.from_distribution("some-pack")
    assert chosen(subject, shipped) == "fallback"
    assert chosen(subject, shipped, declared("pack").from_distribution("pack")) == "pack"
    assert chosen(subject, fallbacks, declared("pack").from_distribution("pack")) == "pack"
    assert chosen(subject, shipped.joined(RewriterSet()), declared("mine")) == "mine"


def test_two_equally_specific_fallbacks_are_an_error_that_names_both(subject):
    ours, theirs = (declare(RewriterSet(fallback=True), label) for label in ("ours", "theirs"))
    with pytest.raises(RewriterError, match=r"ours of pack .* and .*theirs of other "):
        chosen(subject, ours.from_distribution("pack"), theirs.from_distribution("other"))


def test_rewriter_for_an_unknown_backend_is_ignored(subject):
    assert chosen(subject, declared("other", backend="not-installed")) == 2


def test_unknown_keywords_of_the_context_are_options():
    seen = []
    rewriters = RewriterSet()

    @rewriters.function("torch.relu")
    def look(ctx, x):
        seen.append((ctx.backend, ctx.ir, ctx.opset, ctx.exporter, ctx.config, ctx.options))
        return ctx.origin_func(x)

    with rewrite(backend="b", rewriters=[rewriters], builtin=False, opset=18, config={"c": 1}, k=3):
        torch.relu(torch.zeros(1))
    assert seen == [("b", "onnx", 18, None, {"c": 1}, {"k": 3})]


def test_callers_list_of_sets_is_not_changed(subject):
    sets = [declared("mine")]
    chosen(subject, *sets)
    with rewrite(backend="any", rewriters=sets):
        pass
    assert len(sets) == 1
    assert len(sets[0]) == 1


def test_list_rewriters_shows_possible_winners_and_losers():
    rewriters = RewriterSet()
    declare(rewriters, "never", backend="other")
    declare(rewriters, "default")
    declare(rewriters, "maybe", backend="ncnn", check=yes)
    declare(rewriters, "sure", backend="ncnn")
    declare(rewriters, "old", name="a.b", versions={"torch": "<1"})
    declare(rewriters, "script", name="a.b", ir="torchscript")

    def listed(**target):
        listing = list_rewriters([rewriters], backend="ncnn", **target)
        return [
            (each.replacement.__qualname__, winner and winner.replacement.__qualname__)
            for each, winner in listing.items()
        ]

    both = [("maybe", None), ("sure", None), ("default", "sure")]
    assert listed() == both
    assert listed(ir="torchscript") == [("script", None), *both]


def test_list_rewriters_shows_functions_that_lose_to_callers_symbolics():
    function = declare(RewriterSet(distribution="a-pack"), "function", "torch.roll")
    mine = RewriterSet()
    mine.symbolic("roll", is_pytorch=True)(lambda ctx, g, x, *rest: x)
    ((symbolic,), (hidden,)) = mine, function
    assert list_rewriters([function, mine], backend="any") == {hidden: symbolic, symbolic: None}
    assert list_rewriters([function, mine], backend="any", ir="torchscript")[hidden] is None


def where_of(label, *, distribution=None, **conditions):
    rewriters = RewriterSet(distribution=distribution)
    return declare(rewriters, label, "torch.where", **conditions)


def test_callers_default_wins_and_the_report_names_the_loser():
    backends = where_of("backends", distribution="enginebay-any", backend="any", ir="onnx")
    mine = where_of("mine")
    with rewrite(backend="any", rewriters=[backends, mine]) as rewriting:
        assert torch.where(torch.tensor(True), 1, 2) == "mine"
    (lost,) = rewriting.report.lost
    assert (
        lost.loss
        == f"function torch.where: {__name__}.backends was not used, {__name__}.mine has priority"
    )
    counts = {each.origin: each.count for each in rewriting.report.applied if each.count}
    assert counts == {f"{__name__}.mine": 1}


def test_callers_lowering_wins_over_a_plugins_function():
    backends = declare(RewriterSet(distribution="enginebay-any"), "backends", "torch.roll")
    mine = RewriterSet()
    mine.lowering("aten.roll")(lambda ctx, x, *rest: x)
    elsewhere = declare(RewriterSet(), "elsewhere", "rewriting_subject.double")
    with rewrite(
        backend="any", rewriters=[backends, mine, elsewhere], builtin=False, ir="exported_program"
    ) as rewriting:
        assert torch.roll(torch.tensor([1, 2]), 1).tolist() == [2, 1]
    assert [each.origin for each in rewriting.report.lost] == [f"{__name__}.backends"]


def test_lowerings_for_complex_numbers_apply_despite_a_symbolic():
    core = RewriterSet(fallback=True)
    core.lowering("aten.exp", needs=("complex",))(lambda ctx, x: x)
    core.lowering("aten.exp")(lambda ctx, x: x)
    mine = RewriterSet()
    mine.symbolic("exp", is_pytorch=True)(lambda ctx, g, x: x)
    with rewrite(backend="any", rewriters=[core, mine], builtin=False) as rewriting:
        pass
    (lost,) = rewriting.report.lost
    assert lost.kind == "lowering"
    assert [each.condition for each in rewriting.report.applied if each.kind == "lowering"] == [
        "complex numbers"
    ]
