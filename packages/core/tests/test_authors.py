"""The doors of ``enginebay.authors``: each name in one of them, and the names before them."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

import pytest

from enginebay import authors

DOORS = {door: import_module(f"enginebay.authors.{door}") for door in authors.DOORS}


def test_every_name_is_in_one_door() -> None:
    count = Counter(name for door in (authors, *DOORS.values()) for name in door.__all__)
    assert [name for name, doors in count.items() if doors > 1] == []
    for door in (authors, *DOORS.values()):
        for name in door.__all__:
            assert getattr(door, name) is not None


@pytest.mark.parametrize("door", authors.DOORS)
def test_a_former_name_is_the_same_object(door: str) -> None:
    for name in authors._MOVED[door].split():
        assert getattr(authors, name) is getattr(DOORS[door], name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'arays'"):
        _ = authors.arays
