"""Writes to indices on an engine without operators for them."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from packages.core.tests.rewriters.portable.engine import (
    EVERY,
    NUMBERS,
    check,
    examples,
    random_indices,
    tensors,
)

X = torch.arange(60.0).reshape(3, 4, 5)


def scattered(draw, dtypes=NUMBERS, **kwargs):
    """A tensor, a dimension, an index for some elements, and a source larger than the index."""
    x = draw(tensors(dtypes=dtypes, **kwargs))
    dim = draw(st.integers(-x.ndim, x.ndim - 1))
    shape = [draw(st.integers(1, n)) for n in x.shape]
    source = draw(tensors(shape=[n + 1 for n in shape], dtypes=(x.dtype,)))
    return x, dim, random_indices(draw, shape, x.shape[dim]), source


@examples
def test_scatter(draw):
    """Write to different positions only: the order of two writes to a position is undefined."""
    x, dim, index, source = scattered(draw, dtypes=EVERY, special=True)
    index = index.sort(dim)[1]
    if draw(st.booleans()):
        return (
            lambda x, source: (x.scatter(dim, index, source), x.scatter(dim, index, 1)),
            x,
            source,
        )
    return lambda x, index, source: x.scatter(dim, index, source), x, index, source


@examples(exact=False)
def test_scatter_add_and_scatter_reduce(draw):
    x, dim, index, source = scattered(draw)
    include = draw(st.booleans())
    reduce = draw(st.sampled_from(["sum", "mean", "prod", "amax", "amin"]))
    return (
        lambda x, index, source: (
            x.scatter_add(dim, index, source),
            x.scatter_reduce(dim, index, source, reduce, include_self=include),
        ),
        x,
        index,
        source,
    )


@examples(exact=False)
def test_index_copy_add_and_fill(draw):
    x = draw(tensors(dtypes=EVERY))
    dim = draw(st.integers(-x.ndim, x.ndim - 1))
    index = torch.randperm(x.shape[dim])[: draw(st.integers(1, x.shape[dim]))]
    shape = list(x.shape)
    shape[dim] = len(index)
    source = draw(tensors(shape=shape, dtypes=(x.dtype,)))
    return (
        lambda x, index, source: (
            x.index_copy(dim, index, source),
            x.index_add(dim, index.clamp(max=1), source),
            x.index_fill(dim, index, 1),
        ),
        x,
        index,
        source,
    )


@examples(exact=False)
def test_index_put(draw):
    x = draw(tensors(ranks=(2, 4), dtypes=NUMBERS))
    used = draw(st.lists(st.booleans(), min_size=1, max_size=x.ndim).filter(any))
    accumulate = draw(st.booleans())
    count = draw(st.integers(1, 3)) if accumulate else 1
    sizes = [n for n, is_used in zip(x.shape, used, strict=False) if is_used]  # used may be shorter
    indices = [random_indices(draw, (count, 1), n, negative=True) for n in sizes]
    rest = iter(indices)
    index = tuple(next(rest) if is_used else slice(None) for is_used in used)
    values = draw(tensors(shape=x[index].shape, dtypes=(x.dtype,)))

    def put(x, values, *indices):
        rest = iter(indices)
        index = [next(rest) if is_used else None for is_used in used]
        return torch.ops.aten.index_put(x, index, values, accumulate)

    return put, x, values, *indices


def test_writes_to_constant_indices_match_torch():
    mask = torch.tensor([True, False, True])
    check(
        (lambda x: x.index_put((torch.tensor([2, 0]),), x[:2]), X),
        (lambda x: x.masked_fill(x > 7, -1.0), X),
        (lambda x: torch.ops.aten.index_put(x, [x > 7], torch.tensor(-1.0)), X),
        (lambda x: torch.ops.aten.index_put(x, [None, x[0, :, 0] > 7], torch.tensor(-1.0)), X),
        (lambda x: torch.ops.aten.index_put(x, [mask], x[:1] * 0), X),
        (lambda x: x.slice_scatter(x[:, :2] * 0, 1, 1, 3), X),
        (lambda x: x.slice_scatter(x[:, :2] * 0, 1, -4, 4, 2), X),
        (lambda x: x.select_scatter(x[0] * 0, 0, -1), X),
        (lambda x: x.diagonal_scatter(torch.zeros(2), 1, 1, 0), X[:, :, 0]),
        (lambda x: x.diagonal_scatter(torch.zeros(5, 3), 1, 0, 1), X),
        (lambda x: x.scatter(0, torch.tensor(0), 5.0), torch.tensor(1.0)),
    )
