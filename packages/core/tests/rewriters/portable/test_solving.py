"""Systems of equations on an engine without operators for them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import strategies as st
from packages.core.tests.rewriters.portable.engine import check, examples


def matrices(draw, count):
    """Return a matrix or a batch of matrices, which are rarely close to singular."""
    batch = draw(st.sampled_from([(), (2,), (2, 1)]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    return torch.randn(*batch, count, count, generator=generator, dtype=torch.float64)


@examples(exact=False)
def test_solve_triangular(draw):
    count, upper = draw(st.integers(1, 5)), draw(st.booleans())
    a = matrices(draw, count) + 3 * torch.eye(count)
    a = a.triu() if upper else a.tril()
    left = draw(st.booleans())
    b = (torch.randn(count, 2) if left else torch.randn(2, count)).double()
    options = {"upper": upper, "left": left, "unitriangular": draw(st.booleans())}
    return lambda a, b: torch.linalg.solve_triangular(a, b, **options), a, b


@examples(exact=False)
def test_cholesky(draw):
    a = matrices(draw, draw(st.integers(1, 5)))
    upper = draw(st.booleans())
    identity = torch.eye(a.shape[-1])
    return lambda a: torch.linalg.cholesky(a, upper=upper), a @ a.mT + identity


@examples(exact=False)
def test_solve(draw):
    a = matrices(draw, draw(st.integers(1, 4)))
    b = torch.randn(*a.shape[:-1], 2, dtype=torch.float64)
    kind = draw(st.sampled_from(["columns", "rows", "vector"]))
    if kind == "rows":
        return lambda a, b: torch.linalg.solve(a, b.mT, left=False), a, b
    return torch.linalg.solve, a, b[..., 0] if kind == "vector" else b


@examples(exact=False)
def test_matrix_exp(draw):
    """Include large rotations, whose exponential has no element above one."""
    a, scale = matrices(draw, draw(st.integers(1, 5))), draw(st.sampled_from([0.01, 1, 3]))
    if draw(st.booleans()):
        a = (a - a.mT) * 30
    return lambda a: (torch.linalg.matrix_exp(a * scale), torch.matrix_exp(a.float() / 9)), a


@examples(exact=False)
def test_inverse_and_determinant(draw):
    a = matrices(draw, draw(st.integers(1, 4)))
    return draw(st.sampled_from([torch.linalg.inv, torch.linalg.det, torch.linalg.slogdet])), a


def test_matrix_with_a_zero_on_the_diagonal_is_inverted():
    a = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    check((torch.linalg.inv, a), (torch.linalg.det, a), exact=False)


def test_large_systems_are_refused():
    with pytest.raises(
        Exception, match="with 129 rows is not supported, expected at most 128 rows"
    ):
        check((torch.linalg.inv, torch.eye(129)))


def test_a_singular_matrix_has_a_determinant_of_zero():
    zeros, ones = torch.zeros(3, 3), torch.ones(2, 3, 3)
    check((torch.linalg.det, zeros), (torch.linalg.det, ones), (torch.linalg.slogdet, zeros))
