"""The states of metrics as plain data: what goes in comes out, and nothing is changed silently."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from enginebay_lab.evaluation.metric_state import pack_state, unpack_state


def travel(state: object) -> Any:
    """Pack a state, send it as MessagePack, and unpack it."""
    return unpack_state(msgspec.msgpack.decode(msgspec.msgpack.encode(pack_state(state))))


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc", min_size=1), inner),
    max_leaves=8,
)


@given(plain)
def test_plain_data_is_unchanged(state: object) -> None:
    assert travel(state) == state


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
        np.zeros((0, 4), np.float16),
        np.array(1.5),
        np.array([True, False]),
        np.array([1 + 2j]),
        np.array([math.nan, math.inf, -0.0]),
        np.arange(10)[::-2],
    ],
    ids=["float32", "Fortran", "empty", "scalar", "bool", "complex", "not finite", "strides"],
)
def test_an_array_keeps_its_dtype_shape_and_bits(array: np.ndarray[Any, Any]) -> None:
    found = travel({"sums": [array]})["sums"][0]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool])
def test_a_tensor_becomes_an_array_of_its_values(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[0, 1], [1, 0]], dtype=dtype, requires_grad=dtype.is_floating_point)
    found = travel(tensor)
    assert found.shape == (2, 2)
    assert found.astype(np.float32).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    "number", [np.float64(0.1), np.float32(0.5), np.int64(-3), np.bool_(True), np.uint8(200)]
)
def test_a_number_of_numpy_keeps_its_value_and_dtype(number: np.generic) -> None:
    found = np.asarray(travel({"sum": number})["sum"])
    assert found.item() == number.item()
    assert found.dtype == number.dtype


def test_a_tuple_becomes_a_list() -> None:
    assert travel((1, (2.0, "three"))) == [1, [2.0, "three"]]


@given(st.dictionaries(st.integers(-5, 5) | st.text("01", min_size=1), st.integers(), max_size=4))
def test_a_number_as_a_key_stays_a_number(state: dict[object, float]) -> None:
    # A merged metric would count the class "1" beside the class 1.
    small = {key: value % 100 for key, value in state.items()}
    assert travel({"by class": small}) == {"by class": small}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({1, 2}, "a set cannot be encoded as MessagePack"),
        ({"sum": [object()]}, "a object cannot be encoded as MessagePack"),
        (2**64, "18446744073709551616 cannot be encoded as MessagePack"),
        (-(2**63) - 1, "-9223372036854775809 cannot be encoded as MessagePack"),
        (np.array(["text"]), "a ndarray cannot be encoded as MessagePack"),
        (np.array([None]), "a ndarray cannot be encoded as MessagePack"),
        ({(1, 2): 3}, "the key (1, 2) cannot be encoded as MessagePack"),
        ({"": 3}, "the key '' cannot be encoded as MessagePack"),
        ({np.int64(2): 3}, f"the key {np.int64(2)!r} cannot be encoded as MessagePack"),
        (np.str_("text"), "a str_ cannot be encoded as MessagePack"),
        (1j, "a complex cannot be encoded as MessagePack"),
    ],
    ids=[
        "set",
        "object",
        "large",
        "small",
        "texts",
        "objects",
        "key",
        "empty key",
        "NumPy's key",
        "NumPy's text",
        "complex",
    ],
)
def test_other_objects_are_refused(state: object, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        pack_state(state)
    assert str(caught.value) == message
