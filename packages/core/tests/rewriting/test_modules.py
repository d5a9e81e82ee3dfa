from __future__ import annotations

import copy
import warnings

import pytest
import torch
from packages.core.tests.rewriting.contexts import rewrite
from torch import nn

from enginebay.errors import RewriterError
from enginebay.rewriting import RewriterSet

CONV = "torch.nn.Conv2d"


class Negated(nn.Module):
    """Negates the output of the original, which shows in the output of the model."""

    def __init__(self, ctx, module):
        super().__init__()
        self.inner = module

    def forward(self, *args, **kwargs):
        return -self.inner(*args, **kwargs)


def declared(name=CONV, replacement=Negated, **conditions):
    rewriters = RewriterSet()
    rewriters.module(name, **conditions)(replacement)
    return rewriters


def in_force(model, *sets, **kwargs):
    return rewrite(model, backend="any", rewriters=sets, builtin=False, **kwargs)


def fingerprint(model):
    """Return everything about a model that a replacement could leave changed."""
    return [
        (
            name,
            id(module),
            {key: id(value) for key, value in vars(module).items()},
            {key: id(value) for key, value in module._modules.items()},
            {key: id(value) for key, value in module._parameters.items()},
            {key: id(value) for key, value in module._buffers.items()},
            set(module._non_persistent_buffers_set),
            {key: id(value) for key, value in module._forward_hooks.items()},
            {key: id(value) for key, value in module._forward_pre_hooks.items()},
        )
        for name, module in model.named_modules(remove_duplicate=False)
    ]


@pytest.fixture
def net(subject):
    torch.manual_seed(0)
    return subject.Net().eval()


@pytest.fixture(autouse=True)
def _no_trace(net):
    """Check that no change to ``net`` inside a context is left."""
    before, keys = fingerprint(net), list(net.state_dict())
    yield
    assert fingerprint(net) == before
    assert list(net.state_dict()) == keys


@pytest.fixture
def image():
    return torch.rand(1, 2, 6, 6)


def test_all_instances_are_replaced_and_restored(net, image):
    expected = net(image)
    with in_force(net, declared("torch.nn.MultiheadAttention", Pair)) as rewriting:
        torch.testing.assert_close(rewriting.model(image), -expected)
    assert rewriting.report.fired == {"torch.nn.MultiheadAttention": 1}
    assert torch.equal(net(image), expected)


class Pair(Negated):
    def forward(self, *args, **kwargs):
        first, second = self.inner(*args, **kwargs)
        return -first, second


def test_shared_module_stays_shared(net, image):
    with in_force(net, declared()) as rewriting:
        assert net.conv is net.again[1]
        assert type(net.conv) is type(net.again[0]) is Negated
        assert net.conv.weight is net.again[1].weight
    assert rewriting.report.fired == {CONV: 2}


def test_names_of_parameters_and_buffers_survive(net):
    before = {name: id(value) for name, value in net.named_parameters(remove_duplicate=False)}
    state = net.state_dict()
    with in_force(net, declared(), declared("torch.nn.BatchNorm2d")) as rewriting:
        model = rewriting.model
        inside = {name: id(value) for name, value in model.named_parameters(remove_duplicate=False)}
        assert inside == before
        assert list(model.state_dict()) == list(state)
        assert dict(model.named_buffers()).keys() == dict(net.named_buffers()).keys()
        model.load_state_dict(state)


def test_a_buffer_written_inside_the_block_stays_written(net, image):
    net.norm.train()
    with in_force(net, declared("torch.nn.BatchNorm2d", Negated)):
        net(image)
    assert net.norm.num_batches_tracked == 1
    net.norm.eval()


def test_weights_converted_inside_the_block_stay_converted():
    model = nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2))
    with in_force(model, declared(), declared("torch.nn.BatchNorm2d")):
        model.double()
    assert {each.dtype for each in model.state_dict().values()} == {torch.float64, torch.int64}


def test_hooks_run_once_with_the_original_module(net, image):
    seen = []
    handles = [
        net.conv.register_forward_pre_hook(lambda module, args: seen.append(("pre", module))),
        net.conv.register_forward_hook(
            lambda module, args, kwargs, output: seen.append(("post", module)), with_kwargs=True
        ),
    ]
    with in_force(net, declared()):
        net.conv(image)
        assert seen == [("pre", net.conv.inner), ("post", net.conv.inner)]
    seen.clear()
    net.conv(image)
    assert seen == [("pre", net.conv), ("post", net.conv)]
    for handle in handles:
        handle.remove()


def test_weight_norm_computes_the_weights_that_the_replacement_sees(image):
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv2d(2, 2, 1)))
    expected = -model(image)
    with in_force(model, declared()) as rewriting:
        torch.testing.assert_close(model(image), expected)
    assert rewriting.report.fired == {CONV: 1}


def test_root_module_can_be_replaced(net, subject, image):
    expected = net(image)
    with in_force(net, declared("rewriting_subject.Net")) as rewriting:
        assert type(rewriting.model) is Negated
        torch.testing.assert_close(rewriting.model(image), -expected)
    assert rewriting.model is net


def test_rewriter_of_the_nearest_base_class_is_used(image):
    class Special(nn.Conv2d):
        pass

    class First(Negated):
        pass

    class Second(Negated):
        pass

    model = nn.Sequential(nn.Conv2d(2, 2, 1), Special(2, 2, 1), nn.Conv1d(1, 1, 1))
    sets = [
        declared("torch.nn.modules.conv._ConvNd", First),
        declared(CONV, Second),
    ]
    with in_force(model, *sets):
        assert [type(each) for each in model] == [Second, Second, First]
    assert [type(each) for each in model] == [nn.Conv2d, Special, nn.Conv1d]


def test_most_specific_rewriter_of_a_class_is_used(net):
    class ForBackend(Negated):
        pass

    with in_force(net, declared(), declared(replacement=ForBackend, backend="any")):
        assert type(net.conv) is ForBackend


def test_two_equally_specific_rewriters_are_refused_without_changes(net):
    class Other(Negated):
        pass

    with (
        pytest.raises(RewriterError, match="two equally specific module rewriters") as caught,
        in_force(net, declared(), declared(replacement=Other)),
    ):
        pass
    assert "Negated (always) and" in str(caught.value)


def test_constructor_gets_the_context_and_its_named_options(net):
    seen = {}

    class Asking(Negated):
        def __init__(self, ctx, module, size=1, other=2):
            super().__init__(ctx, module)
            seen.update(config=ctx.config, origin=ctx.origin_func is module, size=size, other=other)

    with in_force(net, declared("torch.nn.BatchNorm2d", Asking), config={"c": 1}, size=5, more=3):
        pass
    assert seen == {"config": {"c": 1}, "origin": True, "size": 5, "other": 2}


def test_a_constructor_with_open_keywords_gets_every_option(net):
    seen = {}

    class Greedy(Negated):
        def __init__(self, ctx, module, **options):
            super().__init__(ctx, module)
            seen.update(options)

    with in_force(net, declared("torch.nn.BatchNorm2d", Greedy), size=5, more=3):
        pass
    assert seen == {"size": 5, "more": 3}


def test_origin_func_is_the_original_module(net, image):
    class ThroughContext(nn.Module):
        def __init__(self, ctx, module):
            super().__init__()
            self.original = ctx.origin_func

        def forward(self, x):
            return self.original(x) * 2

    expected = net.conv(image) * 2
    with in_force(net, declared(replacement=ThroughContext)):
        torch.testing.assert_close(net.conv(image), expected)


def test_replacement_shares_the_training_flag_of_the_original(net):
    with in_force(net, declared(), declared("torch.nn.BatchNorm2d")) as rewriting:
        assert not any(each.training for each in rewriting.model.modules())
        rewriting.model.train()
        assert net.norm.inner.training
        rewriting.model.eval()
    assert not net.norm.training


def test_changes_of_a_constructor_to_the_original_are_undone(net, image):
    class Vandal(Negated):
        def __init__(self, ctx, module):
            module.stride = (2, 2)
            module.extra = nn.Linear(1, 1)
            module.weight = nn.Parameter(torch.zeros_like(module.weight))
            module.register_forward_hook(lambda *_: None)
            module.register_buffer("mask", torch.zeros(1), persistent=False)
            super().__init__(ctx, module)

    expected = net(image)
    with in_force(net, declared(replacement=Vandal)):
        assert net.conv(image).shape[-1] == 2
    assert torch.equal(net(image), expected)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_model_is_restored_when_the_block_raises(net, error):
    with pytest.raises(error), in_force(net, declared()):
        raise error


def test_model_is_restored_when_a_constructor_raises(net):
    made = []

    class Broken(Negated):
        def __init__(self, ctx, module):
            super().__init__(ctx, module)
            made.append(self)
            if len(made) == 2:
                raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), in_force(net, declared(replacement=Broken)):
        pass
    assert len(made) == 2


@pytest.mark.parametrize("first_out", ["inner", "outer"])
def test_nested_contexts_may_be_left_in_any_order(net, image, first_out):
    expected = net.conv(image)
    outer = in_force(net, declared())
    outer.__enter__()
    inner = in_force(net, declared("torch.nn.BatchNorm2d"))
    inner.__enter__()
    order = [inner, outer] if first_out == "inner" else [outer, inner]
    torch.testing.assert_close(net.conv(image), -expected)
    order[0].__exit__(None, None, None)
    order[1].__exit__(None, None, None)
    assert torch.equal(net.conv(image), expected)


def test_inner_context_can_rewrite_a_replacement(net, image):
    class Doubled(Negated):
        def forward(self, x):
            return self.inner(x) * 2

    expected = net.conv(image)
    name = f"{__name__}.Negated"
    with in_force(net, declared()):
        with in_force(net, declared(name, Doubled)) as rewriting:
            torch.testing.assert_close(net.conv(image), expected * -2)
        assert rewriting.report.fired == {name: 2}
        torch.testing.assert_close(net.conv(image), -expected)


def test_model_can_be_copied_inside_and_after_a_context(net, image):
    with in_force(net, declared()):
        inside = copy.deepcopy(net)
    expected = net(image)
    assert type(inside.conv) is Negated
    assert torch.equal(copy.deepcopy(net)(image), expected)


def test_a_replacement_without_the_original_has_its_own_weights(net):
    class Fresh(nn.Module):
        def __init__(self, ctx, module):
            super().__init__()
            self.weight = nn.Parameter(module.weight.detach() * 2)

        def forward(self, x):
            return nn.functional.conv2d(x, self.weight)

    with in_force(net, declared(replacement=Fresh)):
        assert torch.equal(net.conv.weight, net.conv.weight)
        assert "conv.bias" not in net.state_dict()
    assert "conv.bias" in net.state_dict()


def test_without_a_model_module_rewriters_do_nothing():
    with rewrite(backend="any", rewriters=[declared()], builtin=False) as rewriting:
        assert rewriting.model is None
    assert rewriting.report.never_fired == (CONV,)


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        (
            "torch.relu",
            (
                'a module rewriter cannot replace "torch.relu": expected a class, found an object '
                "of type builtin_function_or_method"
            ),
            "use .function for a function or a method",
        ),
        (
            "torch.nn.Conv2d.forward",
            (
                'a module rewriter cannot replace "torch.nn.Conv2d.forward": expected a class, '
                "found an object of type function"
            ),
            "use .function for a function or a method",
        ),
    ],
)
def test_module_rewriter_of_a_function_is_refused(net, name, message, hint):
    with pytest.raises(RewriterError) as caught, in_force(net, declared(name)):
        pass
    assert str(caught.value) == message
    assert caught.value.hint == hint


def test_a_context_cannot_be_entered_twice(net):
    with in_force(net, declared()) as rewriting:
        with pytest.raises(RewriterError) as caught:
            rewriting.__enter__()
        assert type(net.conv) is Negated
    assert str(caught.value) == "this rewrite() context is already active"
    assert caught.value.hint == "call rewrite() again to create a new context"


def test_scripted_modules_are_not_rewritten(image):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript itself is deprecated
        model = nn.Sequential(torch.jit.trace(nn.Sequential(nn.Conv2d(2, 2, 1)), image))
    expected = model(image)
    with in_force(model, declared()) as rewriting:
        assert torch.equal(model(image), expected)
    assert rewriting.report.never_fired == (CONV,)
