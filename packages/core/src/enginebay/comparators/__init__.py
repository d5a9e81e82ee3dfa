"""Comparators: they compare outputs that are sets, such as indices, instead of place by place.

A comparator is a callable: a :class:`~enginebay.hooks.ComparisonRequest` in, a
:class:`~enginebay.hooks.ComparisonResult` out. Those here are called like those of plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.comparators.assignment import assign, touching
    from enginebay.comparators.comparator import Comparator
    from enginebay.comparators.find import find_comparators, recorded_comparators

__all__ = ["Comparator", "assign", "find_comparators", "recorded_comparators", "touching"]

__getattr__ = lazy_names(
    __name__,
    {
        "Comparator": "comparators.comparator",
        "assign": "comparators.assignment",
        "find_comparators": "comparators.find",
        "recorded_comparators": "comparators.find",
        "touching": "comparators.assignment",
    },
)
