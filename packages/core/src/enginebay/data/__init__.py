"""Data sets for calibration, verification and evaluation.

A :class:`DataSet` yields the same items every time it is read, one at a time in memory. If it gets
the specs of a model's inputs, it also checks each item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.data.batch_rows import split_batches as split_batches
    from enginebay.data.checked_items import CheckedItems as CheckedItems
    from enginebay.data.data_record import DataRecord as DataRecord
    from enginebay.data.data_set import DataSet as DataSet, NamedData as NamedData
    from enginebay.data.items import Item as Item
    from enginebay.data.named_data import find_data as find_data


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "data.batch_rows": "split_batches",
        "data.checked_items": "CheckedItems",
        "data.data_set": "DataSet NamedData",
        "data.items": "Item",
        "data.named_data": "find_data",
        "data.data_record": "DataRecord",
    },
)
