"""Arithmetic in terms of simpler one."""

from __future__ import annotations

import torch
from packages.core.tests.rewriting.portable.engine import FLOATS, NUMBERS, check, examples, tensors


@examples
def test_of_one_number(draw):
    x = draw(tensors(dtypes=NUMBERS, special=True))
    return lambda x: (x.isnan(), x.sign(), x.trunc(), x.ceil(), x.round(), x.reciprocal()), x


@examples
def test_remainder(draw):
    x = draw(tensors(dtypes=NUMBERS))
    return lambda x: (x % 3, x % -2, x % (x * x + 1), x.fmod(2), x.fmod(x * x + 1)), x


@examples(exact=False)
def test_log1p(draw):
    x = draw(tensors(dtypes=FLOATS, special=True)).abs() * 10.0 ** torch.randint(-30, 4, ())
    return lambda x: x.log1p(), x


def test_split():
    x = torch.arange(12.0).reshape(2, 6)
    check((lambda x: (*x.split([1, 3, 2], 1), *x.split(4, -1), *x.tensor_split(2)), x))
