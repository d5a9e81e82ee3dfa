"""Data sets: what an engine is calibrated with, verified on and evaluated on.

A :class:`DataSet` gives the same items every time it is read, and holds one at a time. Whoever uses
it says which inputs the model takes, and gets items that were checked against them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.data.data_set import CheckedItems, DataSet, Item, NamedData
    from enginebay.data.named_data import find_data
    from enginebay.data.record import DataRecord

__all__ = ["CheckedItems", "DataRecord", "DataSet", "Item", "NamedData", "find_data"]

__getattr__ = lazy_names(
    __name__,
    {
        "CheckedItems": "data.data_set",
        "DataRecord": "data.record",
        "DataSet": "data.data_set",
        "Item": "data.data_set",
        "NamedData": "data.data_set",
        "find_data": "data.named_data",
    },
)
