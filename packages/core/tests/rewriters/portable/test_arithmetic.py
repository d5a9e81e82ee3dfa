"""Arithmetic on an engine that has only simpler operators."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import strategies as st
from packages.core.tests.rewriters.portable.engine import (
    FLOATS,
    NUMBERS,
    SMALL_ENGINE,
    check,
    examples,
    tensors,
)
from packages.core.tests.rewriting.lowered import lower, targets

WITH_ATAN = SMALL_ENGINE | {"aten.atan"}


@examples
def test_elementwise_functions_match_torch(draw):
    x = draw(tensors(dtypes=NUMBERS, special=True))
    return lambda x: (x.isnan(), x.sign(), x.trunc(), x.ceil(), x.round(), x.reciprocal()), x


@examples
def test_remainder(draw):
    x = draw(tensors(dtypes=NUMBERS))
    return lambda x: (x % 3, x % -2, x % (x * x + 1), x.fmod(2), x.fmod(x * x + 1)), x


ELEMENTWISE = {
    "remainder": lambda x: x % 3,
    "fmod": lambda x: x.fmod(2),
    "round": torch.round,
    "isnan": torch.isnan,
    "sign": torch.sign,
    "trunc": torch.trunc,
    "ceil": torch.ceil,
    "reciprocal": torch.reciprocal,
    "log1p": torch.log1p,
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_lowered_functions_keep_dynamic_sizes(name):
    model, operator = ELEMENTWISE[name], f"aten.{name}"
    dims = ({0: torch.export.Dim("n", min=2), 1: torch.export.Dim("m", min=2)},)
    program, _ = lower(model, (torch.rand(3, 4),), dynamic=dims, lacking={operator}, builtin=True)
    assert not [each for each in targets(program) if each.startswith(f"{operator}.")]
    x = torch.randn(5, 2).abs() * 4
    torch.testing.assert_close(program.module()(x), model(x))


@examples(exact=False)
def test_log1p(draw):
    x = draw(tensors(dtypes=FLOATS, special=True)).abs() * 10.0 ** torch.randint(-30, 4, ())
    return lambda x: x.log1p(), x


@examples(exact=False, operators=WITH_ATAN)
def test_atan2(draw):
    y = draw(tensors(dtypes=NUMBERS))
    x = draw(tensors(dtypes=NUMBERS, shape=y.shape))
    return lambda y, x: (y.atan2(x), (-y).atan2(-x)), y, x


def test_atan2_matches_torch_to_the_sign_of_zero():
    numbers = torch.tensor([0.0, -0.0, 1.0, -1.0, 1e-40, math.inf, -math.inf, math.nan])
    y, x = numbers.repeat_interleave(len(numbers)), numbers.repeat(len(numbers))
    program = check((torch.atan2, y, x), exact=False, operators=WITH_ATAN)
    ((result,),), expected = program.module()(y, x), torch.atan2(y, x)
    assert torch.equal(result.signbit() & ~result.isnan(), expected.signbit() & ~expected.isnan())


@examples(exact=False)
def test_hypot_and_copysign(draw):
    x = draw(tensors(dtypes=FLOATS))
    y = draw(tensors(dtypes=(x.dtype,), shape=x.shape))
    scale = 10.0 ** draw(st.integers(-30, 30))
    return lambda x, y: (torch.hypot(x * scale, y) / scale, x.copysign(y), x.copysign(-2)), x, y


@pytest.mark.slow
@examples(exact=False)
def test_lgamma(draw):
    x = draw(tensors(dtypes=FLOATS))
    return lambda x: (torch.lgamma(x), torch.lgamma(x * 3.7), torch.lgamma(x.abs() * 50 + 1)), x


@pytest.mark.slow
@examples(exact=False)
def test_digamma(draw):
    """Include the poles: −∞ or ∞ at zero, by the sign of zero, and NaN at negative integers."""
    x = draw(tensors(dtypes=FLOATS, special=True))
    others = (lambda x: torch.digamma(x * 50), lambda x: torch.digamma(x.abs() + 0.1))
    return lambda x: [torch.digamma(x), torch.digamma(-x), *(other(x) for other in others)], x


@pytest.mark.slow
@examples(exact=False)
def test_erfc(draw):
    x = draw(tensors(dtypes=FLOATS, special=True))
    return lambda x: (torch.erfc(x), torch.erfc(x.abs() + 3)), x


@pytest.mark.slow
@examples(exact=False)
def test_erfinv(draw):
    x = draw(tensors(dtypes=FLOATS))
    return lambda x: (torch.erfinv(x / 3), torch.erfinv(torch.tanh(x)), torch.erfinv(x)), x


@examples
def test_repeat(draw):
    x = draw(tensors(ranks=(0, 3)))
    times = draw(st.lists(st.integers(1, 3), min_size=x.ndim, max_size=4))
    return lambda x: x.repeat(times), x


def test_split():
    x = torch.arange(12.0).reshape(2, 6)
    check((lambda x: (*x.split([1, 3, 2], 1), *x.split(4, -1), *x.tensor_split(2)), x))
