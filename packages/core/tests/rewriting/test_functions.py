from __future__ import annotations

import functools
import inspect
import math
import sys
import threading
import types

import pytest
import torch
import torch.nn.functional as F
from packages.core.tests.rewriting.contexts import rewrite
from torch import nn
from torch.nn.functional import gelu as aliased_gelu
from torch.overrides import _get_current_function_mode_stack

from enginebay import torch_private
from enginebay.errors import RewriterError
from enginebay.rewriting import RewriterSet

ATTENTION = "torch.nn.functional.scaled_dot_product_attention"


def counting(*names):
    """Return a set that passes every call of ``names`` to the original."""
    rewriters = RewriterSet()
    for name in names:

        @rewriters.function(name)
        def unchanged(ctx, *args, **kwargs):
            return ctx.origin_func(*args, **kwargs)

    return rewriters


def in_force(rewriters, **kwargs):
    return rewrite(backend="any", rewriters=[rewriters], builtin=False, **kwargs)


@pytest.fixture(autouse=True)
def _no_trace():
    yield
    assert _get_current_function_mode_stack() == []
    assert F.has_torch_function is torch.overrides.has_torch_function


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("torch.Tensor.expand", lambda x: x.expand(2, 2, 3)),
        ("torch.Tensor.shape", lambda x: x.shape),
        ("torch.Tensor.size", lambda x: x.size(0)),
        ("torch.Tensor.__mod__", lambda x: x % 2),
        ("torch.Tensor.__add__", lambda x: x + 2),
        ("torch.Tensor.__iadd__", lambda x: x.__iadd__(1)),
        ("torch.Tensor.__rsub__", lambda x: 2 - x),
        ("torch.Tensor.__matmul__", lambda x: x @ x.T),
        ("torch.Tensor.__getitem__", lambda x: x[0]),
        ("torch.Tensor.__setitem__", lambda x: x.__setitem__(0, 1)),
        ("torch.Tensor.__len__", len),
        ("torch.Tensor.norm", lambda x: x.norm()),
        ("torch.Tensor.unflatten", lambda x: x.unflatten(1, (3, 1))),
        ("torch.cat", lambda x: torch.cat([x, x])),
        ("torch.linspace", lambda x: torch.linspace(0, 1, 3)),
        ("torch.einsum", lambda x: torch.einsum("ij->ji", x)),
        ("torch.nn.functional.gelu", lambda x: aliased_gelu(x)),
        ("torch.nn.functional.interpolate", lambda x: F.interpolate(x[None], scale_factor=2)),
        ("torch.nn.functional.max_pool2d", lambda x: F.max_pool2d(x[None], 2)),
        (
            "torch.nn.functional.max_pool2d",
            lambda x: F.max_pool2d(x[None], 2, return_indices=True),
        ),
        ("torch.ops.aten.relu", lambda x: torch.ops.aten.relu(x)),
        ("torch.ops.aten.relu", lambda x: torch.ops.aten.relu.default(x)),
        ("torch.linalg.norm", lambda x: torch.linalg.norm(x)),
    ],
)
def test_torch_functions_are_rewritten_exactly_once_per_call(name, call):
    torch.manual_seed(0)
    x = torch.rand(2, 3)
    expected = call(x.clone())
    with in_force(counting(name)) as rewriting:
        result = call(x.clone())
    assert rewriting.report.fired == {name: 1}
    torch.testing.assert_close(result, expected)


@pytest.mark.parametrize(
    ("inner", "call"),
    [
        (ATTENTION, "attention"),
        ("torch.nn.functional.linear", "attention"),
        ("torch.max_pool2d", "max_pool"),
        ("torch.Tensor.reshape", "attention"),
        ("torch._C._nn.upsample_nearest2d", "interpolate"),
    ],
)
def test_calls_inside_python_functions_of_torch_are_rewritten(inner, call):
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.rand(1, 3, 4)
    calls = {
        "attention": lambda: attention(x, x, x, need_weights=False)[0],
        "max_pool": lambda: nn.MaxPool2d(2)(x),
        "interpolate": lambda: F.interpolate(x[None], size=(5, 5)),
    }
    expected = calls[call]()
    with in_force(counting(inner)) as rewriting:
        result = calls[call]()
    assert rewriting.report.fired[inner] >= 1
    assert torch.equal(result, expected)


def test_calls_inside_torch_are_rewritten_under_other_modes():
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.rand(1, 3, 4)
    with torch.device("cpu"), in_force(counting(ATTENTION)) as rewriting, torch.device("cpu"):
        attention(x, x, x, need_weights=False)
    assert rewriting.report.fired[ATTENTION] == 1


def test_modules_of_all_overridable_torch_functions_are_known():
    """A module that is missing in the list would hide the inner calls of its functions."""
    modules = torch_private.modules_with_override_checks()
    functions = {f for group in torch.overrides.get_overridable_functions().values() for f in group}
    names = {f.__globals__["__name__"] for f in functions if isinstance(f, types.FunctionType)}
    # Scalars and lists have no rewriters. Functions that only choose between two others leave the
    # check for modes to these.
    assert names - {module.__name__ for module in modules} <= {
        "torch",
        "torch._jit_internal",
        "torch.foreach",
    }


def test_torch_function_is_the_original_inside_its_own_rewriter():
    rewriters = RewriterSet()

    @rewriters.function("torch.nn.functional.interpolate")
    def doubled(ctx, *args, **kwargs):
        return 2 * F.interpolate(*args, **kwargs)

    x = torch.ones(1, 1, 2)
    with in_force(rewriters), in_force(rewriters):
        assert F.interpolate(x, 2).tolist() == [[[4, 4]]]


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_torch_jit_script_compiles_functions_inside_a_context():
    def body(x):
        return F.layer_norm(F.interpolate(x, 2), [2])

    x = torch.rand(1, 1, 3)
    with in_force(counting("torch.relu")):
        compiled = torch.jit.script(body)
    assert torch.equal(compiled(x), body(x))


def test_fast_path_of_transformer_layers_is_not_taken():
    """The fast path is a single fused operator, which exporters and rewriters do not know."""
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    with in_force(counting("torch.nn.functional.linear")) as rewriting, torch.no_grad():
        layer(torch.rand(1, 3, 4))
    assert rewriting.report.fired["torch.nn.functional.linear"] == 4


def test_rewriters_that_call_each_other_run_once_each():
    rewriters = RewriterSet()

    @rewriters.function("torch.Tensor.flatten")
    def flatten(ctx, self, *dims):
        return self.flatten(*dims).reshape(-1) + 1

    @rewriters.function("torch.Tensor.reshape")
    def reshape(ctx, self, *sizes):
        return ctx.origin_func(self.flatten(), *sizes) + 10

    with in_force(rewriters) as rewriting:
        result = torch.zeros(2, 2).flatten()
    assert result.tolist() == [11.0] * 4
    assert rewriting.report.fired == {"torch.Tensor.flatten": 1, "torch.Tensor.reshape": 1}


def test_python_functions_are_rewritten_under_every_alias(subject):
    alias, partial = subject.double, functools.partial(subject.double, factor=3)
    holder = types.SimpleNamespace(function=subject.double)
    code, attributes = alias.__code__, dict(vars(alias))
    rewriters = RewriterSet()

    @rewriters.function("rewriting_subject.double")
    def tenfold(ctx, *args, **kwargs):
        return 10 * ctx.origin_func(*args, **kwargs)

    with in_force(rewriters):
        assert [alias(1), partial(1), holder.function(1, plus=1)] == [20, 30, 30]
        assert subject.calls_double(2) == 40
        assert inspect.signature(alias) == inspect.signature(lambda x, factor=2, *, plus=0: 0)
    assert alias(1) == 2
    assert alias.__code__ is code
    assert vars(alias) == attributes


def test_a_recursive_function_is_rewritten_at_every_depth(subject):
    with in_force(counting("rewriting_subject.countdown")) as rewriting:
        assert subject.countdown(3) == [3, 2, 1, 0]
    assert rewriting.report.fired == {"rewriting_subject.countdown": 4}


def test_modules_inside_modules_of_the_same_class_are_rewritten(subject):
    model = subject.Block([subject.Block(), subject.Block([subject.Block()])])
    with in_force(counting("rewriting_subject.Block.forward")) as rewriting:
        assert model(torch.zeros(1)).item() == 4
    assert rewriting.report.fired == {"rewriting_subject.Block.forward": 4}


@pytest.mark.parametrize(
    ("attribute", "call", "original"),
    [
        ("method", lambda klass: klass().method(1), ("base", 1)),
        ("static", lambda klass: klass.static(1), ("static", 1)),
        ("static", lambda klass: klass().static(1), ("static", 1)),
        ("klass", lambda klass: klass.klass(1), ("{}", 1)),
        ("klass", lambda klass: klass().klass(1), ("{}", 1)),
        ("value", lambda klass: klass().value, "value"),
    ],
)
def test_inherited_members_are_rewritten_only_in_the_named_class(
    subject, attribute, call, original
):
    def expected(klass):
        if isinstance(original, str):
            return original
        return tuple(each.format(klass) if isinstance(each, str) else each for each in original)

    rewriters = RewriterSet()

    @rewriters.function(f"rewriting_subject.Child.{attribute}")
    def marked(ctx, *args):
        return ("rewritten", ctx.origin_func(*args))

    members = dict(vars(subject.Child))
    with in_force(rewriters):
        assert call(subject.Child) == ("rewritten", expected("Child"))
        assert call(subject.Base) == expected("Base")
    assert call(subject.Child) == expected("Child")
    assert dict(vars(subject.Child)) == members


@pytest.mark.parametrize("attribute", ["method", "static", "klass", "value"])
def test_origin_func_of_an_inherited_member_is_the_rewritten_base(subject, attribute):
    rewriters = RewriterSet()

    def declare(klass):
        @rewriters.function(f"rewriting_subject.{klass}.{attribute}")
        def marked(ctx, *args):
            return [klass, ctx.origin_func(*args)]

    declare("Child")
    declare("Base")

    def call(klass):
        member = getattr(klass(), attribute)
        return member if attribute == "value" else member(1)

    with in_force(rewriters):
        assert call(subject.Child)[0] == "Child"
        assert call(subject.Child)[1][0] == "Base"
        assert call(subject.Base)[0] == "Base"
        assert isinstance(call(subject.Base)[1], (tuple, str))


@pytest.mark.parametrize("klass", ["Table", "Inheriting"])
def test_class_methods_written_in_c_are_rewritten(subject, klass):
    rewriters = RewriterSet()

    @rewriters.function(f"rewriting_subject.{klass}.fromkeys")
    def marked(ctx, cls, keys):
        return ("rewritten", ctx.origin_func(cls, keys, 1))

    kind = getattr(subject, klass)
    members, alias = dict(vars(kind)), getattr(subject, klass.lower())
    with in_force(rewriters):
        assert kind.fromkeys("a") == ("rewritten", {"a": 1})
        assert type(kind().fromkeys("a")[1]) is kind
        assert getattr(subject, klass.lower())("a") == ("rewritten", {"a": 1})
    assert kind.fromkeys("a") == {"a": None}
    assert dict(vars(kind)) == members
    assert getattr(subject, klass.lower()) is alias


@pytest.mark.parametrize("klass", ["Base", "Child"])
def test_cached_property_is_rewritten_with_or_without_a_cached_value(subject, klass):
    rewriters = RewriterSet()

    @rewriters.function(f"rewriting_subject.{klass}.length")
    def longer(ctx, self):
        return ctx.origin_func(self) + 1

    fresh, used = subject.Child(), subject.Child()
    assert used.length == 4
    members = dict(vars(getattr(subject, klass)))
    with in_force(rewriters) as rewriting:
        assert (fresh.length, used.length, used.length) == (5, 5, 5)
    assert (fresh.length, used.length) == (4, 4)
    assert rewriting.report.fired == {f"rewriting_subject.{klass}.length": 3}
    assert dict(vars(getattr(subject, klass))) == members


def test_super_calls_of_a_subclass_reach_the_rewriter(subject):
    rewriters = RewriterSet()

    @rewriters.function("rewriting_subject.Child.method")
    def marked(ctx, self, x):
        return (*ctx.origin_func(self, x), "rewritten")

    with in_force(rewriters):
        assert subject.Grandchild().method(1) == ("grandchild", "base", 1, "rewritten")


def test_c_functions_are_rewritten_under_every_alias(subject):
    rewriters = RewriterSet()

    @rewriters.function("math.hypot")
    @rewriters.function("rewriting_subject.cached")
    def negated(ctx, *args):
        return -ctx.origin_func(*args)

    module = types.ModuleType("rewriting_other")
    module.renamed = math.hypot
    sys.modules["rewriting_other"] = module
    hypot, cached = math.hypot, subject.cached
    try:
        with in_force(rewriters):
            assert (math.hypot(3, 4), module.renamed(3, 4), subject.cached(2)) == (-5, -5, -2)
        assert math.hypot is module.renamed is hypot
        assert subject.cached is cached
    finally:
        del sys.modules["rewriting_other"]


def test_nested_contexts_stack_and_undo_one_at_a_time(subject):
    def adding(name, text):
        rewriters = RewriterSet()

        @rewriters.function(name)
        def mark(ctx, x, *args):
            return ctx.origin_func(x, *args) + text

        return rewriters

    with in_force(adding("torch.Tensor.relu", 1)), in_force(adding("torch.relu", 5)):
        with in_force(adding("torch.Tensor.relu", 10)):
            assert torch.zeros(()).relu() == 11
            with in_force(adding("rewriting_subject.double", 1)):
                assert subject.double(1) == 3
                with in_force(adding("rewriting_subject.double", 10)):
                    assert subject.double(1) == 13
                assert subject.double(1) == 3
            assert subject.double(1) == 2
        assert torch.zeros(()).relu() == 1
    assert torch.zeros(()).relu() == 0


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_everything_is_restored_when_the_block_raises(subject, error):
    with pytest.raises(error), in_force(counting("torch.relu", "rewriting_subject.double")):
        raise error
    with in_force(counting("torch.sigmoid")) as rewriting:
        torch.relu(torch.zeros(1))
    assert rewriting.report.fired == {}
    assert "call" not in subject.double.__code__.co_names


def test_everything_is_restored_when_a_rewriter_raises():
    rewriters = RewriterSet()

    @rewriters.function("torch.relu")
    def broken(ctx, x):
        raise ValueError("broken")

    with in_force(rewriters) as rewriting:
        for _ in range(2):
            with pytest.raises(ValueError, match="broken"):
                torch.relu(torch.zeros(1))
    assert rewriting.report.fired == {"torch.relu": 2}
    assert torch.relu(torch.zeros(1)) == 0


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_contexts_in_generators_can_end_in_any_order(subject, order):
    def held(amount):
        rewriters = RewriterSet()

        @rewriters.function("torch.relu")
        @rewriters.function("rewriting_subject.double")
        def add(ctx, x):
            return ctx.origin_func(x) + amount

        with in_force(rewriters):
            yield

    generators = [held(1), held(10)]
    for generator in generators:
        next(generator)
    zero = torch.zeros(())
    assert (torch.relu(zero), subject.double(0)) == (11, 11)
    generators[order[0]].close()
    left = (1, 10)[order[1]]
    assert (torch.relu(zero), subject.double(0)) == (left, left)
    generators[order[1]].close()
    assert (torch.relu(zero), subject.double(0)) == (0, 0)


def test_other_modes_stay_on_the_stack():
    with torch.device("meta"):
        context = in_force(counting("torch.zeros"))
        context.__enter__()
        with torch.device("cpu"):
            context.__exit__(None, None, None)
            assert torch.zeros(1).device.type == "cpu"
        assert torch.zeros(1).device.type == "meta"


def test_other_threads_see_the_originals(subject):
    seen = {}

    def look():
        seen["torch"] = torch.relu(torch.zeros(())).item()
        seen["python"] = subject.double(1)

    rewriters = RewriterSet()

    @rewriters.function("torch.relu")
    @rewriters.function("rewriting_subject.double")
    def constant(ctx, x):
        return 100

    with in_force(rewriters):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert torch.relu(torch.zeros(1)) == subject.double(1) == 100
    assert seen == {"torch": 0.0, "python": 2}


def test_two_threads_rewrite_the_same_function_differently(subject):
    barrier, seen = threading.Barrier(2), {}

    def work(value):
        rewriters = RewriterSet()

        @rewriters.function("torch.relu")
        @rewriters.function("rewriting_subject.double")
        def constant(ctx, x):
            return value

        with in_force(rewriters):
            barrier.wait()
            seen[value] = (torch.relu(torch.zeros(1)), subject.double(1))
            barrier.wait()

    threads = [threading.Thread(target=work, args=(value,)) for value in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {1: (1, 1), 2: (2, 2)}
    assert subject.double(1) == 2


def test_context_closed_by_another_thread_leaves_no_rewriter_active(subject):
    context = in_force(counting("torch.relu", "rewriting_subject.double"))
    entering = threading.Thread(target=context.__enter__)
    entering.start()
    entering.join()
    context.__exit__(None, None, None)
    assert "call" not in subject.double.__code__.co_names
    context.__enter__()
    torch.relu(torch.zeros(1))
    context.__exit__(None, None, None)
    assert context.report.fired == {"torch.relu": 1}


def test_tensor_subclasses_still_override_functions():
    class Marked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is F.interpolate:
                return "marked"
            return super().__torch_function__(func, types, args, kwargs)

    with in_force(counting("torch.relu")):
        assert F.interpolate(torch.zeros(1, 1, 2).as_subclass(Marked), 4) == "marked"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "no_such_package.f",
            '"no_such_package.f" was not found: no module "no_such_package" is loaded',
        ),
        (
            "torch.nn.functional.geluu",
            (
                '"torch.nn.functional.geluu" was not found: "torch.nn.functional" has no "geluu" '
                '(did you mean "gelu"?)'
            ),
        ),
        (
            "torch.nn.Lineer.forward",
            (
                '"torch.nn.Lineer.forward" was not found: "torch.nn" has no "Lineer" '
                '(did you mean "Linear"?)'
            ),
        ),
    ],
)
def test_unknown_name_raises_only_if_strict_or_misspelt_by_the_caller(name, line):
    theirs = counting(name, "torch.relu").from_distribution("a-plugin")
    with in_force(theirs) as rewriting:
        torch.relu(torch.zeros(1))
    assert rewriting.report.not_found == (line,)
    assert rewriting.report.fired == {"torch.relu": 1}
    if "no module" in line:  # the set may be for models of several packages
        with in_force(counting(name)) as rewriting:
            pass
        assert rewriting.report.not_found == (line,)
    else:
        with pytest.raises(RewriterError) as caught, in_force(counting(name)):
            pass
        assert str(caught.value) == line
        assert caught.value.hint == (
            "correct the name, or limit the rewriter to its versions: versions={…}"
        )
    with pytest.raises(RewriterError) as caught, in_force(counting(name), strict=True):
        pass
    assert str(caught.value) == line


def test_function_rewriter_of_a_class_is_refused():
    with pytest.raises(RewriterError) as caught, in_force(counting("torch.nn.Linear")):
        pass
    assert str(caught.value) == 'a function rewriter cannot replace the class "torch.nn.Linear"'
    assert caught.value.hint == "use .module for an nn.Module class, or pass the name of a method"


def test_function_rewriter_of_a_number_is_refused():
    with pytest.raises(RewriterError) as caught, in_force(counting("math.pi")):
        pass
    assert str(caught.value) == (
        'a function rewriter cannot replace "math.pi": expected a function, a method or a property'
        ", found an object of type float"
    )


@pytest.mark.parametrize("name", ["torch.Size.numel", "math.pi.hex", "torch.float32.to_real"])
def test_attribute_that_cannot_be_replaced_raises_and_reverts_all(subject, name):
    with (
        pytest.raises(RewriterError, match=f'"{name.rpartition(".")[2]}" cannot be rewritten: '),
        in_force(counting("rewriting_subject.double", "math.hypot", name)),
    ):
        pass
    assert "call" not in subject.double.__code__.co_names
    assert not hasattr(math.hypot, "__wrapped__")


def test_model_that_is_not_a_module_is_refused():
    with pytest.raises(RewriterError) as caught, rewrite("net", backend="any"):
        pass
    assert str(caught.value) == "the model is a str, not a torch.nn.Module"
