"""Values of a model's inputs that Python reads are recorded; shapes and constants are not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from enginebay.state import Observation, Observer

if TYPE_CHECKING:
    from collections.abc import Callable


class Function(nn.Module):
    def __init__(self, function: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> object:
        return self.function(x)


def observed(model: nn.Module, x: Tensor) -> Observation:
    observer = Observer()
    with torch.no_grad(), observer.watch({"x": x}):
        model(x)
    return observer.observation


def through_a_view(x: Tensor) -> bool:
    y = torch.zeros(3)
    y[0].copy_(x.sum())
    return bool(y.sum() > 0)


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (lambda x: 1 if x.sum() > 0 else 2, "True"),
        (lambda x: int(x.max()), "1.0"),
        (lambda x: x.sum().item(), "8.0"),
        (lambda x: x[0].tolist(), "[1.0, 1.0, 1.0, 1.0]"),
        (lambda x: torch.equal(x, x), "True"),
        (lambda x: torch.arange(x.max()), "1.0"),
        (through_a_view, "True"),
    ],
)
def test_values_read_by_python_are_recorded_with_their_line(function, value):
    (reading,) = observed(Function(function), torch.ones(2, 4)).readings
    assert reading.value == value
    assert reading.place.startswith("state/test_observation.py:")


@pytest.mark.parametrize("read", [lambda x: x.numpy(), np.asarray, lambda x: x.cumsum(0).numpy()])
def test_conversion_to_numpy_is_recorded(read):
    assert len(observed(Function(read), torch.ones(2, 4)).readings) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.relu().sum(),
        lambda x: x[: x.shape[0] // 2],
        lambda x: int(torch.zeros_like(x).sum()),
        lambda x: bool(torch.ones(3).sum() > 2),
        lambda x: torch.arange(x.shape[1]).tolist(),
    ],
)
def test_reads_of_shapes_and_constants_are_not_recorded(function):
    assert observed(Function(function), torch.ones(2, 4)).readings == []


def test_table_rows_are_those_of_the_smallest_embedding():
    class Tables(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.small, self.large = nn.Embedding(10, 2), nn.Embedding(99, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.small(x) + self.large(x + 1)

    assert observed(Tables(), torch.tensor([1, 2])).table_rows == {"x": 10}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.eye(7)[x],
        lambda x: torch.eye(7)[:, x],
        lambda x: torch.arange(7).gather(0, x),
        lambda x: torch.arange(7).index_select(0, x),
        lambda x: nn.functional.one_hot(x, 7),
    ],
    ids=["rows", "columns", "gather", "index_select", "one_hot"],
)
def test_indexed_tensor_bounds_the_integer_input(function):
    assert observed(Function(function), torch.tensor([1, 0])).below == {"x": 7}


def test_embedding_bound_is_not_lowered_by_argmax_indexing():
    pooled = Function(lambda x: nn.functional.embedding(x, torch.eye(9))[x.argmax()])
    assert observed(pooled, torch.tensor([1, 2])).below == {"x": 9}


def test_tensor_methods_are_restored_after_an_error():
    before = dict(vars(torch.Tensor))

    def fail(x: Tensor) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        observed(Function(fail), torch.ones(1))
    assert dict(vars(torch.Tensor)) == before


def test_threads_record_only_their_own_readings():
    def run(number: int) -> list[str]:
        observation = observed(Function(lambda x: x.tolist()), torch.full((1,), float(number)))
        return [reading.value for reading in observation.readings]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(40))) == [[f"[{float(n)}]"] for n in range(40)]


@pytest.mark.parametrize(
    ("function", "orders"),
    [
        (lambda x: x.topk(2), True),
        (lambda x: x.max(1), True),
        (lambda x: x.argmax(-1), True),
        (lambda x: x.max(), False),
        (lambda x: x.amax(1), False),
        (lambda x: torch.nn.functional.max_pool1d(x, 2), False),
    ],
)
def test_operators_that_return_indices_set_orders(function, orders):
    assert observed(Function(function), torch.ones(2, 4)).orders is orders


def test_torch_cond_is_not_recorded_as_value_reading() -> None:
    def branch(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))

    assert observed(Function(branch), torch.ones(2, 4)).readings == []
