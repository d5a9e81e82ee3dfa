"""The search for the smallest number of layers to return to floating point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import given, strategies as st

from enginebay_lab.diagnosis.quantization import find_shortest_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence


class Tried(NamedTuple):
    names: Sequence[str]
    passed: bool


@given(st.data())
def test_the_shortest_prefix_that_passes_is_found(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 200))
    needed = data.draw(st.integers(1, count - 1))
    order = [str(number) for number in range(count)]
    tried: list[int] = []

    def attempt(names: Sequence[str]) -> Any:
        tried.append(len(names))
        return Tried(names, len(names) >= needed)

    assert list(find_shortest_prefix(order, attempt).names) == order[:needed]
    assert len(set(tried)) == len(tried) <= 2 * count.bit_length()


def test_the_longest_attempt_is_returned_if_none_passes() -> None:
    found = find_shortest_prefix("abcde", lambda names: Tried(names, passed=False))
    assert (found.names, found.passed) == ("abcd", False)
