"""Sorting and extremes on an engine without operators for them."""

from __future__ import annotations

import pytest
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
    x = draw(tensors(sizes=(1, 7), **kwargs))
    return x, draw(st.integers(-x.ndim, x.ndim - 1))


@examples
def test_sort(draw):
    x, dim = shaped(draw, dtypes=EVERY, special=True)
    down = draw(st.booleans())
    return lambda x: (
        *x.sort(dim=dim, descending=down, stable=True),
        x.sort(dim, descending=down)[0],
        x.argsort(dim=dim, descending=down, stable=True),
    ), x


@pytest.mark.slow
@examples
def test_topk_kthvalue_and_median(draw):
    """Compare values only: the order of equal elements is undefined."""
    x, dim = shaped(draw, dtypes=NUMBERS, special=True)
    k, largest = draw(st.integers(1, x.shape[dim])), draw(st.booleans())
    return lambda x: (
        x.topk(k, dim, largest)[0],
        x.gather(dim, x.topk(k, dim, largest)[1]),
        x.kthvalue(k, dim)[0],
        x.contiguous().median(dim, True)[0],  # torch 2.13 is wrong for an expanded dimension
        x.median(),
    ), x


@examples
def test_mode(draw):
    x, dim = shaped(draw, dtypes=EVERY)
    keep = draw(st.booleans())
    return lambda x: x.contiguous().mode(dim, keep), x


@examples
def test_max_and_min_with_their_indices(draw):
    x, dim = shaped(draw, dtypes=NUMBERS, special=True)
    keep = draw(st.booleans())
    return lambda x: (
        *(*x.max(dim, keep), *x.min(dim, keep), x.max(), x.min()),
        *(x.argmax(dim, keep), x.argmin(dim, keep), x.argmax(), x.argmin(keepdim=True)),
    ), x


@examples
def test_bucketize_and_searchsorted(draw):
    x = draw(tensors(ranks=(2, 2), dtypes=NUMBERS, special=True))
    rows = draw(tensors(shape=(x.shape[0], 5), dtypes=(x.dtype,))).sort(-1)[0]
    right = draw(st.booleans())
    return (
        lambda x, rows: (
            torch.bucketize(x.contiguous(), rows[0].contiguous(), right=right),
            torch.searchsorted(rows.contiguous(), x.contiguous(), right=right, out_int32=True),
            torch.searchsorted(rows[0].contiguous(), 1, side="right"),
        ),
        x,
        rows,
    )


@examples
def test_histc(draw):
    x = draw(tensors(dtypes=FLOATS))
    return lambda x: (torch.histc(x, 4, -2, 2), torch.histc(x, 3)), x


def test_ordering_of_a_scalar_matches_torch():
    check((lambda x: (*x.sort(), *x.topk(1), *x.max(0), x.argmin(), x.median()), torch.tensor(2.0)))
