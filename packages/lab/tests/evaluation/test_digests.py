"""Digests of items: equal for equal targets, different for everything that a metric could see."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from enginebay_lab.evaluation.digests import DIGEST_BYTES, ItemDigests, TotalDigest, digest_target

DISTINCT: list[Any] = [
    None,
    0,
    0.0,
    "0",
    b"0",
    True,
    [],
    (),
    {},
    [0],
    (0,),
    [[0], 1],
    [[0, 1]],
    {"a": 0},
    {"b": 0},
    {"a": [0]},
    np.float32(0),
    np.float64(0),
    np.zeros(1, np.float32),
    np.zeros(2, np.float32),
    np.zeros((1, 2), np.float32),
    np.zeros((2, 1), np.float32),
    np.zeros(2, np.int32),
    np.array(["a"]),
    np.array(["b"]),
]


def test_different_targets_have_different_digests() -> None:
    for one, other in combinations(DISTINCT, 2):
        assert digest_target(one) != digest_target(other), (one, other)


@pytest.mark.parametrize("number", range(len(DISTINCT)))
def test_a_digest_has_eight_bytes_and_does_not_change(number: int) -> None:
    target = DISTINCT[number]
    assert len(digest_target(target)) == DIGEST_BYTES
    assert digest_target(target) == digest_target(target)


def test_the_memory_layout_does_not_matter() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    for same in (np.asfortranarray(array), array[::-1][::-1], np.pad(array, 1)[1:-1, 1:-1]):
        assert digest_target(same) == digest_target(array)


def test_a_tensor_is_as_its_array() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = torch.from_numpy(array.copy()).requires_grad_()
    assert digest_target(tensor) == digest_target(array)
    assert digest_target({"boxes": [tensor]}) == digest_target({"boxes": [array]})


def test_an_array_of_objects_is_read_by_its_text() -> None:
    one, other = np.array([{"a": 1}], object), np.array([{"a": 2}], object)
    assert digest_target(one) != digest_target(other)


@given(st.lists(st.binary(min_size=8, max_size=8), max_size=9), st.data())
def test_the_total_does_not_depend_on_the_parts(digests: list[bytes], data: st.DataObject) -> None:
    whole, parts = TotalDigest(), TotalDigest()
    whole.add(ItemDigests(b"".join(digests), b"".join(reversed(digests))))
    cut = data.draw(st.integers(0, len(digests)))
    for start, stop in ((0, cut), (cut, len(digests))):
        parts.add(
            ItemDigests(
                b"".join(digests[start:stop]), b"".join(list(reversed(digests))[start:stop])
            )
        )
    assert (parts.text, parts.inputs) == (whole.text, whole.inputs)


def test_the_total_depends_on_the_order_and_on_the_side() -> None:
    def text(inputs: bytes, targets: bytes) -> str:
        total = TotalDigest()
        total.add(ItemDigests(inputs, targets))
        return total.text

    assert text(b"1" * 8 + b"2" * 8, b"") != text(b"2" * 8 + b"1" * 8, b"")
    assert text(b"1" * 8, b"2" * 8) != text(b"2" * 8, b"1" * 8)
    assert text(b"1" * 8, b"2" * 8).split("-")[0] == text(b"1" * 8, b"3" * 8).split("-")[0]
