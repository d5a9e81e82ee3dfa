"""Arrays of NumPy and tensors of torch: detection and conversion."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from enginebay.errors import InputError
from enginebay.tensors.arrays import (
    host_tensor,
    host_view,
    is_text,
    is_torch,
    numpy_dtype,
    to_device,
    to_numpy,
    to_torch,
)

CPU = torch.device("cpu")


def test_is_torch_accepts_tensors_only() -> None:
    assert is_torch(torch.ones(1))
    assert not is_torch(np.ones(1))


@pytest.mark.parametrize("name", ["float32", "float16", "int64", "bool", "uint8", "bfloat16"])
def test_numpy_dtype_has_the_given_name(name: str) -> None:
    assert numpy_dtype(name).name == name


def test_numpy_dtype_refuses_an_unknown_name() -> None:
    with pytest.raises(InputError, match="unknown dtype 'floaty'"):
        numpy_dtype("floaty")


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).T,
        torch.ones(2, dtype=torch.bfloat16),
        torch.tensor(True),
        torch.empty(0, 3),
        torch.arange(4.0, requires_grad=True),
        torch.tensor([1 + 2j]).conj(),
        torch.tensor([1 + 2j]).conj().imag,
    ],
    ids=["transposed", "bfloat16", "0-d bool", "empty", "requires grad", "conj", "neg"],
)
def test_tensor_survives_conversion_to_numpy_and_back(tensor: torch.Tensor) -> None:
    array = to_numpy(tensor)
    assert type(array) is np.ndarray
    back = to_torch(array, CPU)
    assert back.dtype is tensor.dtype
    assert torch.equal(back, tensor.detach().resolve_conj().resolve_neg())


def test_conversion_on_the_host_shares_memory() -> None:
    tensor = torch.zeros(3)
    to_numpy(tensor)[0] = 7
    assert tensor[0] == 7
    array = np.zeros(3, np.float32)
    to_torch(array, CPU)[0] = 7
    assert array[0] == 7


@pytest.mark.parametrize("value", [torch.ones(2), np.ones(2)])
def test_to_device_moves_tensors_and_arrays(value: Any) -> None:
    assert to_device(value, CPU).device == CPU


def test_host_view_shares_the_memory_of_a_plain_tensor() -> None:
    tensor = torch.zeros(3)
    view = host_view(tensor)
    assert view is not None
    view[0] = 7
    assert tensor[0] == 7


@pytest.mark.parametrize(
    "value",
    [
        np.ones(2),
        None,
        torch.ones(2, requires_grad=True),
        torch.ones(2, dtype=torch.bfloat16),
        torch.ones(2, device="meta"),
        torch.nn.Parameter(torch.ones(2)),
        torch.tensor([1 + 2j]).conj(),
    ],
    ids=["array", "None", "gradient", "bfloat16", "device", "parameter", "conj"],
)
def test_host_view_returns_none_for_other_values(value: Any) -> None:
    assert host_view(value) is None


def test_texts_stay_an_array_of_numpy_beside_tensors() -> None:
    texts = np.array(["text"], dtype=object)
    assert host_tensor(texts) is texts
    assert to_torch(texts, torch.device("meta")) is texts


@pytest.mark.parametrize(
    "value", [["a", "né"], np.array(["a", "né"]), np.array(["a", "né"], np.dtypes.StringDType())]
)
def test_texts_of_every_dtype_become_objects(value: Any) -> None:
    array = to_numpy(value)
    assert array.dtype == object
    assert array.tolist() == ["a", "né"]
    assert is_text(array)
    assert not is_text(np.array(["a", None], object))


MASKED = np.ma.masked_array([1.0, 2.0], mask=[False, True])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (MASKED, r"the array has masked elements\nhint: pass array\.filled\(VALUE\)"),
        (
            [[1.0], [2.0, 3.0]],
            "a list cannot be converted to a NumPy array: setting an array element",
        ),
        (torch.ones(2).to_sparse(), "a Tensor cannot be converted to a NumPy array: .*Sparse"),
        (torch.ones(2, device="meta"), "a Tensor cannot be converted to a NumPy array: .*meta"),
    ],
)
def test_unconvertible_value_is_refused(value: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        to_numpy(value)
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert re.match(message, text)


def test_masked_array_without_masked_elements_is_accepted() -> None:
    found = to_numpy(np.ma.masked_array([1.0, 2.0]))
    assert type(found) is np.ndarray
