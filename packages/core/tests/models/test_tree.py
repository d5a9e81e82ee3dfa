from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st
from torch.utils import _pytree as pytree

from enginebay.tensors import leaves, map_leaves

Point = namedtuple("Point", "x y")


@dataclass
class Plain:
    a: Any
    b: Any = None
    made: Any = field(init=False, default=7)

    def __post_init__(self) -> None:
        assert not isinstance(self.a, str), "__post_init__ must not run on the rebuilt one"


@dataclass(frozen=True)
class Frozen:
    a: Any


class Box:
    """A container registered with pytree only, like transformers' caches."""

    def __init__(self, *parts: Any) -> None:
        self.parts = list(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and self.parts == other.parts


pytree.register_pytree_node(Box, lambda box: (box.parts, None), lambda parts, _: Box(*parts))


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        (1, [""]),
        ({"a": 1, 2: {"b": 3}}, ["a", "2.b"]),
        ([1, (2, 3)], ["0", "1.0", "1.1"]),
        (Point(1, [2]), ["x", "y.0"]),
        (Plain(1, b=[2]), ["a", "b.0", "made"]),
        (Frozen({"k": 1}), ["a.k"]),
        (OrderedDict(z=1, a=2), ["z", "a"]),
        (UserDict(a=1), ["a"]),
        ({"box": Box(1, [2])}, ["box.0", "box.1.0"]),
        ([], []),
        ("text", [""]),
        (None, [""]),
        (Plain, [""]),
        (torch.Size([2, 3]), ["0", "1"]),
    ],
)
def test_leaves_have_dotted_paths(value: Any, paths: list[str]) -> None:
    assert [path for path, _ in leaves(value)] == paths


def test_prefix_is_prepended_to_every_path() -> None:
    assert dict(leaves({"a": 1}, "batch")) == {"batch.a": 1}
    assert dict(leaves(1, "x")) == {"x": 1}


@pytest.mark.parametrize(
    "value",
    [Point(1, 2), Plain(1, b={"c": 2}), Frozen([1]), OrderedDict(z=1), UserDict(a=1), Box(1, (2,))],
)
def test_map_leaves_preserves_types_and_the_original(value: Any) -> None:
    before = list(leaves(value))
    rebuilt = map_leaves(lambda leaf: f"new {leaf}", value)
    assert type(rebuilt) is type(value)
    assert list(leaves(rebuilt)) == [(path, f"new {leaf}") for path, leaf in before]
    assert list(leaves(value)) == before


nested = st.recursive(
    st.integers() | st.none() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.builds(Point, inner, inner)
        | st.builds(Frozen, inner)
        | st.builds(Box, inner)
    ),
    max_leaves=12,
)


@given(nested)
def test_mapping_with_identity_returns_an_equal_structure(value: Any) -> None:
    assert map_leaves(lambda leaf: leaf, value) == value
