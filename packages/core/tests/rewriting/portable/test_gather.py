"""Look-ups without look-ups."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from packages.core.tests.rewriting.portable.engine import check, examples, places_in, tensors
from torch.nn import functional

X = torch.arange(60.0).reshape(3, 4, 5)


@examples
def test_gather(draw):
    x = draw(tensors(special=True))
    dim = draw(st.integers(-x.ndim, x.ndim - 1))
    axes = enumerate(x.shape)
    shape = [draw(st.integers(0, n + 1) if axis == dim % x.ndim else st.integers(1, n))
             for axis, n in axes]  # fmt: skip
    places = places_in(draw, shape, x.shape[dim])
    if draw(st.booleans()):
        return lambda x: x.gather(dim, places), x
    return lambda x, places: x.gather(dim, places), x, places


@examples
def test_index_select(draw):
    x = draw(tensors(special=True))
    dim = draw(st.integers(-x.ndim, x.ndim - 1))
    places = places_in(draw, [draw(st.integers(0, 5))], x.shape[dim])
    if draw(st.booleans()):
        return lambda x: x.index_select(dim, places), x
    return lambda x, places: x.index_select(dim, places), x, places


@examples
def test_computed_indices(draw):
    """Several, with gaps, negative and broadcast."""
    x = draw(tensors(ranks=(2, 4), special=True))
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    used = draw(st.lists(st.booleans(), min_size=1, max_size=x.ndim).filter(any))
    places = []
    for axis, is_used in enumerate(used):
        if is_used:
            own = [n if draw(st.booleans()) else 1 for n in shape]
            places.append(places_in(draw, own, x.shape[axis], negative=True))

    def look_up(x, *places):
        rest = iter(places)
        return x[tuple(next(rest) if is_used else slice(None) for is_used in used)]

    return look_up, x, *places


def test_known_places():
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


def test_large_tables_are_products_of_matrices():
    table = torch.randn(3000, 40)
    program = check((lambda places: table[places], torch.tensor([[0, 2999, 5, 5] * 4])))
    assert any("mm" in str(node.target) for node in program.graph.nodes)
