"""Comparators of outputs that are sets, whose elements have no fixed order.

A comparator is a callable that takes a :class:`~enginebay.hooks.ComparisonRequest` and returns a
:class:`~enginebay.hooks.ComparisonResult`. Plugins can add comparators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.comparators.assignment import assign as assign, touching as touching
    from enginebay.comparators.comparator import Comparator as Comparator
    from enginebay.comparators.comparator_lookup import (
        find_comparators as find_comparators,
        recorded_comparators as recorded_comparators,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "comparators.assignment": "assign touching",
        "comparators.comparator": "Comparator",
        "comparators.comparator_lookup": "find_comparators recorded_comparators",
    },
)
