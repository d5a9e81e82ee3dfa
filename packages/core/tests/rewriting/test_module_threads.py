"""Module rewriters apply in one thread: others see the original model, or get an error."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
from packages.core.tests.rewriting.contexts import rewrite
from torch import nn

from enginebay.errors import RewriterError
from enginebay.rewriting import RewriterSet

X = torch.ones(1, 1, 2, 2)
NEGATED = RewriterSet()


@NEGATED.module("torch.nn.Conv2d")
class Negated(nn.Module):
    def __init__(self, ctx, module):
        super().__init__()
        self.inner = module

    def forward(self, x):
        return -self.inner(x)


def net():
    """Return a convolution in a block, with a hook, which the replacement takes over."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Sequential(nn.Conv2d(1, 1, 1)), nn.Identity()).eval()
    model[0][0].register_forward_hook(lambda module, args, output: output * 2)
    return model


def negated(model):
    return rewrite(model, backend="any", rewriters=[NEGATED], builtin=False)


def in_another_thread(function):
    """Return what a function returns in a new thread, or the RewriterError that it raises."""
    results = []

    def run():
        try:
            results.append(function())
        except RewriterError as err:
            results.append(err)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


@torch.no_grad()
def test_calls_of_other_threads_get_the_original():
    model = net()
    expected = model(X)
    stop = threading.Event()
    rewritten = []

    @torch.no_grad()
    def rewriting():
        while not stop.is_set():
            with negated(model) as inside:
                rewritten.append(torch.equal(inside.model(X), -expected))

    thread = threading.Thread(target=rewriting)
    thread.start()
    try:
        calls = [torch.equal(model(X), expected) for _ in range(2000)]
    finally:
        stop.set()
        thread.join()
    assert all(calls)
    assert rewritten
    assert all(rewritten)
    assert torch.equal(model(X), expected)


def test_model_that_another_thread_rewrites_is_refused():
    def enter(model):
        with negated(model) as inside:
            return type(inside.model[0][0])

    model = net()
    with negated(model):
        err = in_another_thread(lambda: enter(model))
        assert str(err) == "a Conv2d of this model is being rewritten by another thread"
        assert err.hint == "rewrite a copy of the model in each thread: copy.deepcopy(model)"
        assert in_another_thread(lambda: enter(copy.deepcopy(model))) is Negated
        assert type(model[0][0]) is Negated
    assert in_another_thread(lambda: enter(model)) is Negated
    assert type(model[0][0]) is nn.Conv2d


def test_other_threads_see_original_names_children_and_hooks():
    model = net()
    with negated(model):
        block, conv = in_another_thread(lambda: (model[0], model[0][0]))
        assert in_another_thread(lambda: len(conv._forward_hooks)) == 1
        assert in_another_thread(lambda: [*block.children()]) == [conv]
        assert in_another_thread(lambda: dict(block._modules)) == {"0": conv}
        assert in_another_thread(lambda: [*reversed(block._modules.values())]) == [conv]
        assert repr(in_another_thread(lambda: copy.deepcopy(block))) == repr(nn.Sequential(conv))
    assert type(block._modules) is dict


def test_changes_to_children_inside_the_block_persist():
    model = net()
    with negated(model):
        model[0].more = nn.ReLU()
        del model[1]
        assert not in_another_thread(lambda: hasattr(model[0], "more"))
    assert [name for name, _ in model.named_modules()] == ["", "0", "0.0", "0.more"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_failed_context_releases_the_model_to_other_threads(error):
    model = net()
    with pytest.raises(error), negated(model):
        raise error
    assert in_another_thread(lambda: negated(model).__enter__()) is not None
