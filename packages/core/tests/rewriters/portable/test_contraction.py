"""Einsum, distances, grids and sums of products, on an engine that multiplies matrices."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import strategies as st
from packages.core.tests.rewriters.portable import engine
from packages.core.tests.rewriters.portable.engine import FLOATS, NUMBERS, tensors
from packages.core.tests.rewriters.portable.test_complex_numbers import (
    REAL,
    as_real,
    complex_tensors,
)
from torch.nn import functional

check = partial(engine.check, exact=False)
examples = partial(engine.examples, exact=False)

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


@examples(operators=engine.SMALL_ENGINE | {"aten.diagonal"})
def test_einsum(draw):
    equation = draw(st.sampled_from(list(EQUATIONS)))
    dtype = (draw(st.sampled_from(NUMBERS)),)
    operands = (draw(tensors(shape=shape, dtypes=dtype)) for shape in EQUATIONS[equation])
    return lambda *given: torch.einsum(equation, *given), *operands


@pytest.mark.slow
@examples(operators=REAL)
def test_einsum_of_complex_numbers(draw):
    """Include the product of modes in neural operators, and a product of three operands."""
    equation = draw(st.sampled_from(["bixy,ioxy->boxy", "ij,kj", "bld,bmd,m->bl", "i,i->"]))
    shapes = {"bixy,ioxy->boxy": [(2, 3, 4, 2), (3, 5, 4, 2)], **EQUATIONS}
    dtype = (draw(st.sampled_from(FLOATS)),)
    known = shapes.get(equation, [(3, 4), (5, 4)])
    operands = [draw(complex_tensors(shape=shape, dtypes=dtype)) for shape in known]
    return as_real(lambda *given: torch.einsum(equation, *given).resolve_conj()), *operands


def test_einsum_of_two_operands_is_a_single_product():
    program = check(
        (lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b), *torch.randn(2, 1, 4, 5, 6))
    )
    names = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert names.count("aten.bmm.default") == 1
    assert len(names) <= 12


@examples
def test_vector_norm(draw):
    x = draw(tensors(ranks=(0, 3), dtypes=FLOATS, special=True))
    p = draw(st.sampled_from([0, 1, 2, 3.5, -1, torch.inf, -torch.inf]))
    dims = draw(st.sampled_from([None, -1, tuple(range(x.ndim))]))
    options = {"keepdim": draw(st.booleans()), "dtype": draw(st.sampled_from([None, torch.double]))}
    return lambda x: torch.linalg.vector_norm(x, p, dims, **options), x


@examples
def test_cdist(draw):
    rows, p = draw(st.sampled_from([4, 30])), draw(st.sampled_from([1.0, 2.0, 3.0, torch.inf]))
    dtype = (draw(st.sampled_from(FLOATS)),)
    a = draw(tensors(shape=(2, rows, 5), dtypes=dtype))
    b = draw(tensors(shape=(1, 7, 5), dtypes=dtype)) + 0.3  # far from all rows of a
    return lambda a, b: torch.cdist(a, b, p), a, b


@examples
def test_pdist(draw):
    x = draw(tensors(ranks=(2, 2), sizes=(1, 6), dtypes=FLOATS))
    p = draw(st.sampled_from([0, 1, 2, 3.5, torch.inf]))
    return lambda x: torch.pdist(x, p), x


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", [(1, 3), (0, 3), (2, 0)])
def test_pdist_of_too_few_rows_or_columns_matches_torch(shape):
    check(*((partial(torch.pdist, p=p), torch.ones(shape)) for p in (0, 1, 2, 3.5, torch.inf)))


@examples
def test_addbmm_and_addmv(draw):
    dtype = (draw(st.sampled_from(NUMBERS)),)
    x, a, b = (draw(tensors(shape=s, dtypes=dtype)) for s in [(3, 5), (2, 3, 4), (2, 4, 5)])
    scales = {"beta": draw(st.sampled_from([0, 1, 3])), "alpha": draw(st.sampled_from([1, 2]))}
    if scales["beta"] == 0 and x.is_floating_point():
        x = x * torch.nan
    if draw(st.booleans()):
        return lambda x, a, b: torch.addbmm(x, a, b, **scales), x, a, b
    return lambda x, a, b: torch.addmv(x[:, 0], a[0], b[0, :, 0], **scales), x, a, b


@examples
def test_bilinear(draw):
    dtype = (draw(st.sampled_from(FLOATS)),)
    shapes = [(2, 3, 4), (2, 3, 5), (6, 4, 5), (6,)][: draw(st.sampled_from([3, 4]))]
    return functional.bilinear, *(draw(tensors(shape=shape, dtypes=dtype)) for shape in shapes)


@examples
def test_affine_grid(draw):
    corners, count = draw(st.booleans()), draw(st.sampled_from([2, 3]))
    size = (2, 1, *(draw(st.integers(2, 5)) for _ in range(count)))
    theta = draw(tensors(shape=(2, count, count + 1), dtypes=FLOATS))
    return lambda theta: functional.affine_grid(theta, size, align_corners=corners), theta
