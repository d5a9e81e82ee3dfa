"""Look-ups on an engine without operators for them."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from packages.core.tests.rewriters.portable.engine import check, examples, random_indices, tensors
from torch.nn import functional

X = torch.arange(60.0).reshape(3, 4, 5)


@examples
def test_gather(draw):
    x = draw(tensors(special=True))
    dim = draw(st.integers(-x.ndim, x.ndim - 1))
    axes = enumerate(x.shape)
    shape = [draw(st.integers(0, n + 1) if axis == dim % x.ndim else st.integers(1, n))
             for axis, n in axes]  # fmt: skip
    indices = random_indices(draw, shape, x.shape[dim])
    if draw(st.booleans()):
        return lambda x: x.gather(dim, indices), x
    return lambda x, indices: x.gather(dim, indices), x, indices


@examples
def test_index_select(draw):
    x = draw(tensors(special=True))
    dim = draw(st.integers(-x.ndim, x.ndim - 1))
    indices = random_indices(draw, [draw(st.integers(0, 5))], x.shape[dim])
    if draw(st.booleans()):
        return lambda x: x.index_select(dim, indices), x
    return lambda x, indices: x.index_select(dim, indices), x, indices


@examples
def test_lookups_with_computed_indices_match_torch(draw):
    """Use several index tensors, with gaps, negative indices and broadcasting."""
    x = draw(tensors(ranks=(2, 4), special=True))
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    used = draw(st.lists(st.booleans(), min_size=1, max_size=x.ndim).filter(any))
    indices = []
    for axis, is_used in enumerate(used):
        if is_used:
            index_shape = [n if draw(st.booleans()) else 1 for n in shape]
            indices.append(random_indices(draw, index_shape, x.shape[axis], negative=True))

    def look_up(x, *indices):
        rest = iter(indices)
        return x[tuple(next(rest) if is_used else slice(None) for is_used in used)]

    return look_up, x, *indices


def test_lookups_with_constant_indices_match_torch():
    table = torch.randn(7, 2)
    check(
        (lambda x: x[:, [0, 2]], X),
        (lambda x: x[[2, 0], :, [1, -1]], X),
        (lambda x: x[:, None, torch.tensor([[0], [3]]), torch.tensor([1, 4])], X),
        (lambda x: x[:, torch.arange(3, -1, -1)], X),
        (lambda x: x.take(torch.tensor([[0, -1], [59, 7]])), X),
        (lambda x: x.flip(0, -1), X),
        (lambda x: x[:0].flip(0), X),
        (lambda x: x.diagonal(), X),
        (lambda x: x.diagonal(1, 2, 0), X),
        (lambda x: x.diagonal(-2, 1, 2), X),
        (lambda x: x.diagonal(9, 1, 2), X),
        (lambda x: x.unfold(1, 2, 1), X),
        (lambda x: x.unfold(-1, 3, 2), X),
        (lambda x: x.unfold(0, 3, 1), X),
        (lambda x: x.as_strided((2, 3, 2), (20, 1, 1)), X),
        (lambda x: x.as_strided((4,), (0,), 7), X),
        (lambda x: x.transpose(0, 1).as_strided((4, 3), (2, 1), 1), X),
        (lambda x: x.repeat_interleave(2), X),
        (lambda x: x.repeat_interleave(3, 1), X),
        (lambda x: x.repeat_interleave(torch.tensor([1, 0, 2]), 0, output_size=3), X),
        (lambda x: functional.one_hot(x[0].to(torch.int64), 20), X),
        (lambda x: functional.embedding(x[0].to(torch.int64).clamp(0, 6), table), X),
        (lambda x: x.take_along_dim(x.to(torch.int64).clamp(0, 3), 1), X),
        (lambda x: x.roll((1, -2), (0, 2)), X),
        (lambda x: torch.view_as_real(torch.complex(x, -x)[:, torch.tensor([2, 0, -1])]), X),
    )


@examples
def test_masked_scatter(draw):
    x = draw(tensors(ranks=(2, 3)))
    mask = draw(tensors(shape=x.shape[draw(st.integers(0, 1)) :], dtypes=(torch.bool,)))
    source = torch.arange(x.numel() + 2).to(x.dtype)
    return lambda x, mask: x.masked_scatter(mask, source), x, mask


def test_large_table_is_read_by_a_matrix_product():
    table = torch.randn(3000, 40)
    program = check((lambda indices: table[indices], torch.tensor([[0, 2999, 5, 5] * 4])))
    assert any("mm" in str(node.target) for node in program.graph.nodes)
