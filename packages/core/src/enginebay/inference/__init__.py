"""Running an engine: the wrapper contract, its receipt, and timing.

Imported lazily: a receipt is also read where nothing runs, and then NumPy is not imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.inference.chain import ChainedWrapper
    from enginebay.inference.input_check import InputCheck
    from enginebay.inference.layers import TimedLayer
    from enginebay.inference.receipt import Receipt, coarseness
    from enginebay.inference.timing import Latency, Timing, count_time
    from enginebay.inference.wrapper import Wrapper

__all__ = [
    "ChainedWrapper",
    "InputCheck",
    "Latency",
    "Receipt",
    "TimedLayer",
    "Timing",
    "Wrapper",
    "coarseness",
    "count_time",
]

__getattr__ = lazy_names(
    __name__,
    {
        "InputCheck": "inference.input_check",
        "ChainedWrapper": "inference.chain",
        "Latency": "inference.timing",
        "TimedLayer": "inference.layers",
        "Timing": "inference.timing",
        "count_time": "inference.timing",
        "Receipt": "inference.receipt",
        "coarseness": "inference.receipt",
        "Wrapper": "inference.wrapper",
    },
)
