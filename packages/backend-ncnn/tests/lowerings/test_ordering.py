"""Sorts and extremes, of numbers with ties."""

from __future__ import annotations

import pytest
import torch
from hypothesis import Phase, given, settings, strategies as st
from packages.core.tests.rewriters.portable.engine import EVERY, NUMBERS, tensors

from enginebay_ncnn.dialect.operators import OPERATORS

#: Smaller cases that fail are as slow as the first.
quick = settings(
    max_examples=max(1, settings().max_examples // 25),
    deadline=None,
    phases=(Phase.reuse, Phase.generate),
)


@quick
@given(data=st.data())
def test_sorts_match_torch(check, data):
    cases = []
    for descending in (False, True, False, True):
        x = data.draw(tensors(dtypes=EVERY, sizes=(1, 5)))
        dim = data.draw(st.integers(-x.dim(), x.dim() - 1))
        cases.append(
            (lambda x, d=dim, down=descending: x.sort(stable=True, dim=d, descending=down), x)
        )
        if x.dtype is not torch.bool:
            k = data.draw(st.integers(1, x.shape[dim]))
            cases.append((lambda x, d=dim, k=k, up=descending: x.topk(k, d, up).values, x))
            cases.append((lambda x, d=dim, k=k: x.kthvalue(k, d).values, x))
            # torch 2.13 computes the median of an expanded tensor from its underlying memory.
            cases.append((lambda x, d=dim: x.contiguous().median(d, keepdim=True).values, x))
            cases.append((lambda x: x.median(), x))
    check(*cases, exact=True)


@quick
@given(data=st.data())
def test_extremes_and_their_indices_match_torch(check, data):
    cases = []
    for name in ("max", "min"):
        x = data.draw(tensors(dtypes=NUMBERS, sizes=(1, 5)))
        dim = data.draw(st.integers(-x.dim(), x.dim() - 1))
        keepdim = data.draw(st.booleans())
        argument = f"arg{name}"
        cases += [
            (lambda x, n=name, d=dim, k=keepdim: getattr(x, n)(d, k), x),
            (lambda x, n=argument, d=dim, k=keepdim: getattr(x, n)(d, k), x),
            (lambda x, n=argument, k=keepdim: getattr(x, n)(None, k), x),
            (lambda x, n=name, d=dim: getattr(torch, f"cum{n}")(x, d), x),
        ]
    check(*cases, exact=True)


def test_indices_belong_to_their_elements(check):
    x = torch.randperm(60).reshape(3, 20).float()
    check((lambda x: x.topk(4), x), (lambda x: x.kthvalue(3), x), (lambda x: x.argsort(0), x))


def test_sorting_a_scalar_matches_torch(check):
    one = torch.tensor(2.0)
    functions = (
        *(lambda x: x.sort(), lambda x: x.topk(1), lambda x: x.max(0), lambda x: x.argmin()),
        *(lambda x: x.cummax(0), lambda x: x.median(0)),
    )
    check(*((function, one) for function in functions), exact=True)


def nodes(program):
    return [node for node in program.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize(
    ("function", "most"),
    [(lambda x: x.sort().values, 18), (torch.argmax, 9)],
)
def test_no_operator_handles_nan(check, function, most):
    program = check((function, torch.randn(40)), exact=True)
    found = nodes(program)
    assert len(found) <= most
    assert not any("isnan" in str(node.target) or "aten.ne" in str(node.target) for node in found)


def test_topk_compares_each_pair_once(lowered):
    program = lowered(lambda x: x.topk(2), [torch.randn(3, 100)], OPERATORS)
    assert max(each.meta["val"][0].numel() for each in nodes(program)) <= 100 * 100
