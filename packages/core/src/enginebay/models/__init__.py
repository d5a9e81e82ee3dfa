"""A model with bound inputs: its signature, example, dynamic dimensions and recorded calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.models.bound_model import BoundModel as BoundModel, bind as bind
    from enginebay.models.dynamic import (
        file_dimensions as file_dimensions,
        to_profiles as to_profiles,
    )
    from enginebay.models.example_inputs import shapes_of as shapes_of
    from enginebay.models.forward_arguments import Call as Call
    from enginebay.models.recorded_calls import RecordedCalls as RecordedCalls, record as record
    from enginebay.models.shape_variants import (
        between_shapes as between_shapes,
        cheap_sizes as cheap_sizes,
        crossed_shapes as crossed_shapes,
        extreme_shapes as extreme_shapes,
        named_sizes as named_sizes,
        odd_multiple as odd_multiple,
        shapes_at as shapes_at,
        size_levels as size_levels,
        unlimited_sizes as unlimited_sizes,
    )
    from enginebay.models.signature import Signature as Signature


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "models.bound_model": "BoundModel bind",
        "models.dynamic": "file_dimensions to_profiles",
        "models.example_inputs": "shapes_of",
        "models.forward_arguments": "Call",
        "models.recorded_calls": "RecordedCalls record",
        "models.shape_variants": (
            "between_shapes cheap_sizes crossed_shapes extreme_shapes named_sizes odd_multiple "
            "shapes_at size_levels unlimited_sizes"
        ),
        "models.signature": "Signature",
    },
)
