"""Comparators: they compare outputs that are sets, such as detections, instead of place by place.

A comparator is a callable: a :class:`~enginebay.hooks.ComparisonRequest` in, a
:class:`~enginebay.hooks.ComparisonResult` out. Those here are called like those of plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.comparators.comparator import Comparator
    from enginebay.comparators.find import find_comparators, recorded_comparators

__all__ = ["Comparator", "find_comparators", "recorded_comparators"]

__getattr__ = lazy_names(
    __name__,
    {
        "Comparator": "comparators.comparator",
        "find_comparators": "comparators.find",
        "recorded_comparators": "comparators.find",
    },
)
