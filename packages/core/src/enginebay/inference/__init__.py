"""The wrapper that runs an engine, the receipt (effective settings) of an engine, and timing.

The names are imported lazily, so that reading a manifest's receipt does not import NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.inference.input_check import InputCheck as InputCheck
    from enginebay.inference.receipt import (
        Receipt as Receipt,
        coarseness as coarseness,
        describe_precision as describe_precision,
    )
    from enginebay.inference.timing import (
        Latency as Latency,
        Timing as Timing,
        count_time as count_time,
    )
    from enginebay.inference.wrapper import Wrapper as Wrapper


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "inference.input_check": "InputCheck",
        "inference.receipt": "Receipt coarseness describe_precision",
        "inference.timing": "Latency Timing count_time",
        "inference.wrapper": "Wrapper",
    },
)
