"""Elementwise arithmetic."""

from __future__ import annotations

import pytest
import torch
from hypothesis import Phase, given, settings, strategies as st
from packages.core.tests.rewriters.portable.engine import FLOATS, NUMBERS, tensors

#: Smaller cases that fail are as slow as the first.
quick = settings(
    max_examples=max(1, settings().max_examples // 25),
    deadline=None,
    phases=(Phase.reuse, Phase.generate),
)

ONE = {
    **{name: getattr(torch, name) for name in ("exp2", "erfc", "signbit", "isfinite")},
    "log2": lambda x: (x.abs() + 1).log2(),
    "copysign": lambda x: x.copysign(-2.0),
    "var_mean": lambda x: torch.var_mean(x, 0, correction=0),
    "std_mean": lambda x: torch.std_mean(x, correction=0, keepdim=True),
}
TWO = {
    name: getattr(torch, name)
    for name in ("hypot", "fmax", "fmin", "copysign", "logaddexp", "logaddexp2")
} | {"lerp": lambda a, b: (a.lerp(b, 0.3), a.lerp(b, b.sigmoid()))}


@pytest.mark.slow
@quick
@given(data=st.data())
def test_elementwise_functions_match_torch(check, data):
    of_integers = ("exp2", "erfc", "signbit", "log2", "isfinite")
    check(
        *(
            (function, data.draw(tensors(dtypes=NUMBERS if name in of_integers else FLOATS)))
            for name, function in ONE.items()
        )
    )


@quick
@given(data=st.data())
def test_functions_of_two_tensors_broadcast(check, data):
    cases = []
    for function in TWO.values():
        first = data.draw(tensors(dtypes=(torch.float32,), ranks=(2, 3)))
        second = data.draw(tensors(dtypes=(torch.float32,), shape=first.shape[-1:]))
        cases.append((function, first, second))
    check(*cases)


@pytest.mark.parametrize("both", [(-100.0, 100.0), (100.0, 100.0), (-90.0, -91.0)])
def test_logaddexp_of_large_numbers_matches_torch(check, both):
    check((torch.logaddexp, *map(torch.tensor, both)), (torch.logaddexp2, *map(torch.tensor, both)))
