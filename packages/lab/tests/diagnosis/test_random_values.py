"""Random tensors within the value ranges of other tensors."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, strategies as st

from enginebay_lab.diagnosis.random_values import draw_values

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def draw(tensor: torch.Tensor, seed: int = 0) -> torch.Tensor:
    before = tensor.clone()
    drawn = draw_values(tensor, torch.Generator().manual_seed(seed))
    assert torch.equal(tensor.isnan(), before.isnan())
    assert torch.equal(tensor.nan_to_num(), before.nan_to_num())
    assert (drawn.dtype, drawn.shape) == (tensor.dtype, tensor.shape)
    return drawn


@given(
    st.lists(st.floats(width=32, allow_subnormal=False), min_size=1, max_size=12),
    st.sampled_from(FLOATS),
    st.integers(0, 99),
)
def test_floats_stay_in_their_range(values: list[float], dtype: torch.dtype, seed: int) -> None:
    tensor = torch.tensor(values, dtype=torch.float64).to(dtype)
    drawn = draw(tensor, seed)
    finite = tensor.isfinite()
    assert torch.equal(drawn[~finite].nan_to_num(), tensor[~finite].nan_to_num())
    assert drawn[finite].isfinite().all()
    if finite.any() and tensor[finite].min() != tensor[finite].max():
        assert (drawn[finite] >= tensor[finite].min()).all()
        assert (drawn[finite] <= tensor[finite].max()).all()


@given(st.data(), st.sampled_from(INTEGERS), st.integers(0, 99))
def test_integers_stay_in_their_range(data: st.DataObject, dtype: torch.dtype, seed: int) -> None:
    limits = torch.iinfo(dtype)
    values = st.lists(st.integers(limits.min, limits.max), min_size=1, max_size=12)
    tensor = torch.tensor(data.draw(values), dtype=dtype)
    drawn = draw(tensor, seed)
    assert drawn.min() >= tensor.min()
    assert drawn.max() <= tensor.max()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_limits_of_an_integer_type_are_a_range_too(dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    drawn = draw(torch.tensor([limits.min, limits.max, 0, 1] * 16, dtype=dtype))
    assert len(drawn.unique()) > 8
    near = draw(torch.tensor([limits.max, limits.max - 1, limits.max - 2] * 16, dtype=dtype))
    assert set(near.tolist()) <= {limits.max - 2, limits.max - 1, limits.max}


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_constant_float_is_extended_upwards(dtype: torch.dtype) -> None:
    zeros = draw(torch.zeros(500, dtype=dtype)).double()
    assert (zeros.min() >= 0, zeros.max() <= 1, zeros.std() > 0.2) == (True, True, True)
    tens = draw(torch.full((500,), -10, dtype=dtype)).double()
    assert (tens.min() >= -10, tens.max() <= 0, tens.std() > 2) == (True, True, True)
    for value in (torch.finfo(dtype).max, torch.finfo(dtype).min):
        assert draw(torch.full((500,), value, dtype=dtype)).isfinite().all()


def test_a_constant_integer_stays() -> None:
    assert draw(torch.full((9,), 7)).tolist() == [7] * 9


@given(st.lists(st.booleans(), min_size=3, max_size=9), st.integers(0, 99))
def test_a_mask_has_as_many_of_each_value_as_before(bits: list[bool], seed: int) -> None:
    for values in (torch.tensor(bits), torch.tensor([0.0 if bit else -1e4 for bit in bits])):
        drawn = draw(values, seed)
        if len(set(bits)) == 2:
            assert sorted(drawn.tolist()) == sorted(values.tolist())


def test_the_rows_of_a_mask_are_permuted_alike() -> None:
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]).bool()
    drawn = draw(mask, seed=3)
    assert drawn.sum(1).tolist() == [3, 1]
    assert sorted(map(tuple, drawn.T.tolist())) == sorted(map(tuple, mask.T.tolist()))


def test_two_elements_are_no_mask() -> None:
    drawn = torch.stack([draw(torch.tensor([0.0, 1.0]), seed) for seed in range(20)])
    assert drawn.unique().numel() > 4


def test_what_has_no_range_is_copied() -> None:
    for tensor in (
        torch.zeros(0, 3),
        torch.tensor([math.nan, math.inf, -math.inf]),
        torch.tensor([1 + 2j, 3 - 1j, 0j]),
    ):
        drawn = draw_values(tensor, torch.Generator())
        assert drawn is not tensor
        assert drawn.dtype == tensor.dtype
        assert torch.equal(torch.nan_to_num(drawn), torch.nan_to_num(tensor))


def test_infinite_values_stay_where_they_are() -> None:
    mask = torch.tensor([0.5, -math.inf, 1.5, math.nan, 0.75])
    drawn = draw(mask)
    assert drawn[1] == -math.inf
    assert drawn[3].isnan()
    assert ((drawn[[0, 2, 4]] >= 0.5) & (drawn[[0, 2, 4]] <= 1.5)).all()


def test_the_whole_range_of_floats_is_drawn() -> None:
    largest = torch.finfo(torch.float32).max
    drawn = draw(torch.tensor([-largest, largest, 0.0] * 200))
    assert drawn.isfinite().all()
    assert drawn.abs().max() > largest / 2


def test_a_scalar_is_drawn() -> None:
    assert draw(torch.tensor(3.0)).shape == ()
    assert draw(torch.tensor(True)).item() is True


def test_the_same_generator_draws_the_same_values() -> None:
    tensor = torch.linspace(-1, 1, 50)
    assert torch.equal(draw(tensor, 5), draw(tensor, 5))
    assert not torch.equal(draw(tensor, 5), draw(tensor, 6))
