"""Arrays for authors of plugins: dtypes, shapes, samples, and the comparison of outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.backend import fits_eight_bits as fits_eight_bits
    from enginebay.comparators import (
        assign as assign,
        touching as touching,
    )
    from enginebay.params import (
        ShapeProfile as ShapeProfile,
        Shapes as Shapes,
        format_dims as format_dims,
        name_shapes as name_shapes,
        parse_shapes as parse_shapes,
        resolve_profiles as resolve_profiles,
    )
    from enginebay.tensors import (
        Array as Array,
        NumpyArray as NumpyArray,
        PackedArray as PackedArray,
        Sample as Sample,
        inputs_for as inputs_for,
        is_torch as is_torch,
        load_samples as load_samples,
        numpy_dtype as numpy_dtype,
        output_leaves as output_leaves,
        parse_inputs as parse_inputs,
        save_samples as save_samples,
        to_numpy as to_numpy,
        to_torch as to_torch,
    )
    from enginebay.verdict import (
        OutputComparison as OutputComparison,
    )
    from enginebay.verification import (
        compare_outputs as compare_outputs,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "backend": "fits_eight_bits",
        "comparators": "assign touching",
        "params": "ShapeProfile Shapes format_dims name_shapes parse_shapes resolve_profiles",
        "tensors": (
            "Array NumpyArray PackedArray Sample inputs_for is_torch load_samples "
            "numpy_dtype output_leaves parse_inputs save_samples to_numpy to_torch"
        ),
        "verdict": "OutputComparison",
        "verification": "compare_outputs",
    },
)
