"""Einsum, distances, grids and products of groups."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

#: Equations, with the shapes of their operands.
EQUATIONS = {
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "bij,bkj->bik": [(2, 3, 4), (2, 5, 4)],
    "bhwc,hkc->bhwk": [(1, 3, 4, 5), (3, 2, 5)],
    "i,j->ij": [(3,), (4,)],
    "bi,bj->bij": [(2, 3), (2, 4)],
    "ij->ji": [(3, 4)],
    "ijk->i": [(3, 4, 2)],
    "ijk,jl": [(3, 4, 2), (4, 5)],
    "ij,ij": [(3, 4), (3, 4)],
    "i,i->": [(3,), (3,)],
    "bld,bmd,m->bl": [(2, 3, 4), (2, 5, 4), (5,)],
    "...qhd,...khd->...hqk": [(1, 2, 3, 4, 5), (1, 2, 6, 4, 5)],
    "...ij,jk->...ik": [(2, 3, 4, 5), (5, 6)],
    "i...,i...": [(3, 2), (3, 2)],
    "ii->i": [(3, 3)],
    "bij,bjk->bik ": [(1, 3, 4), (2, 4, 5)],
}


def test_einsum(check):
    check(
        *(
            (lambda *given, e=equation: torch.einsum(e, *given), *map(torch.randn, shapes))
            for equation, shapes in EQUATIONS.items()
        )
    )


def test_einsum_of_two_is_one_product(check):
    program = check(
        (lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b), *torch.randn(2, 1, 4, 5, 6))
    )
    names = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert names.count("aten.matmul.default") == 1
    assert len(names) <= 7


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("rows", [4, 30])
def test_distances(check, p, rows):
    a, b = torch.randn(2, rows, 5), torch.randn(1, 7, 5)
    check((lambda a, b: torch.cdist(a, b, p), a, b))


def test_products_and_sums(check):
    x, a, b = torch.randn(3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5)
    check(
        (lambda x, a, b: torch.addbmm(x, a, b, beta=0.5, alpha=2), x, a, b),
        (lambda x, a, b: torch.addmv(x, a, b, beta=0.5, alpha=2), x[:, 0], a[0], b[0, :, 0]),
        (functional.bilinear, a, b.mT[:, :3], torch.randn(6, 4, 4), torch.randn(6)),
    )


@pytest.mark.parametrize("corners", [False, True])
def test_grids(check, corners):
    def grid(theta, *size):
        return functional.affine_grid(theta, size, align_corners=corners)

    check(
        (lambda theta: grid(theta, 2, 1, 4, 5), torch.randn(2, 2, 3)),
        (lambda theta: grid(theta, 2, 1, 3, 4, 2), torch.randn(2, 3, 4)),
    )


def test_products_of_groups(lowered):
    a = torch.randn(7, 8).bfloat16()
    b = torch.randn(3, 8, 16).bfloat16()
    ends = torch.tensor([2, 2, 7], dtype=torch.int32)
    program = lowered(lambda a, b, ends: torch.ops.aten._grouped_mm(a, b, ends), [a, b, ends])
    wanted = torch.cat([a[:2] @ b[0], a[2:] @ b[2]])
    torch.testing.assert_close(program.module()(a, b, ends), wanted)
