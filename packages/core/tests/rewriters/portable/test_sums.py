"""Running sums and extremes on an engine without operators for them."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from packages.core.tests.rewriters.portable.engine import (
    EVERY,
    FLOATS,
    NUMBERS,
    check,
    examples,
    tensors,
)


def shaped(draw, **kwargs):
    x = draw(tensors(sizes=(1, 9), **kwargs))
    return x, draw(st.integers(-x.ndim, x.ndim - 1))


@examples(exact=False)
def test_cumsum(draw):
    x, dim = shaped(draw, special=True)
    dtype = draw(st.sampled_from([None, torch.float64]))
    return lambda x: x.cumsum(dim, dtype=dtype), x


@examples(exact=False)
def test_cumprod(draw):
    x, dim = shaped(draw, special=True)
    return lambda x: x.cumprod(dim), x


@examples(exact=False)
def test_logcumsumexp(draw):
    x, dim = shaped(draw, dtypes=FLOATS, special=True)
    return lambda x: x.logcumsumexp(dim), x


@examples
def test_cummax_and_cummin(draw):
    x, dim = shaped(draw, dtypes=EVERY, special=True)
    function = draw(st.sampled_from([torch.cummax, torch.cummin]))
    return lambda x: tuple(function(x, dim)), x


@examples(exact=False)
def test_prod(draw):
    x, dim = shaped(draw, dtypes=NUMBERS)
    keepdim = draw(st.booleans())
    return lambda x: (x.prod(dim, keepdim), x.prod()), x


@examples
def test_any_and_all(draw):
    x, dim = shaped(draw, special=True)
    keepdim = draw(st.booleans())
    return lambda x: (x.any(dim, keepdim), x.all(dim, keepdim), x.any(), x.all()), x


def test_empty_and_scalar_tensors_match_torch():
    check(
        (lambda x: (x.cumsum(0), x.prod(0), x.any(1), x.all()), torch.zeros(0, 3)),
        (lambda x: (x.cumsum(0), x.prod(), *x.cummax(0)), torch.tensor(2.0)),
    )
