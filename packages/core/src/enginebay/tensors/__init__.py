"""Tensors: their names, dtypes and shapes, arrays of NumPy and torch, and recorded samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.tensors.arrays import (
        NumpyArray,
        host_tensor,
        host_view,
        is_torch,
        numpy_dtype,
        to_device,
        to_numpy,
        to_torch,
    )
    from enginebay.tensors.caches import is_cache
    from enginebay.tensors.inputs import generate_input, inputs_for, parse_inputs, resize
    from enginebay.tensors.packed import PackedArray
    from enginebay.tensors.samples import (
        Sample,
        is_recorded,
        load_samples,
        save_arrays,
        save_samples,
    )
    from enginebay.tensors.spec import Array, TensorSpec, dtype_name, specs
    from enginebay.tensors.tree import leaves, map_leaves, map_named, output_leaves

__all__ = [
    "Array",
    "NumpyArray",
    "PackedArray",
    "Sample",
    "TensorSpec",
    "dtype_name",
    "generate_input",
    "host_tensor",
    "host_view",
    "inputs_for",
    "is_cache",
    "is_recorded",
    "is_torch",
    "leaves",
    "load_samples",
    "map_leaves",
    "map_named",
    "numpy_dtype",
    "output_leaves",
    "parse_inputs",
    "resize",
    "save_arrays",
    "save_samples",
    "specs",
    "to_device",
    "to_numpy",
    "to_torch",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Array": "tensors.spec",
        "NumpyArray": "tensors.arrays",
        "PackedArray": "tensors.packed",
        "Sample": "tensors.samples",
        "TensorSpec": "tensors.spec",
        "dtype_name": "tensors.spec",
        "host_tensor": "tensors.arrays",
        "host_view": "tensors.arrays",
        "inputs_for": "tensors.inputs",
        "is_cache": "tensors.caches",
        "is_recorded": "tensors.samples",
        "is_torch": "tensors.arrays",
        "leaves": "tensors.tree",
        "load_samples": "tensors.samples",
        "generate_input": "tensors.inputs",
        "map_leaves": "tensors.tree",
        "map_named": "tensors.tree",
        "numpy_dtype": "tensors.arrays",
        "output_leaves": "tensors.tree",
        "parse_inputs": "tensors.inputs",
        "resize": "tensors.inputs",
        "save_arrays": "tensors.samples",
        "save_samples": "tensors.samples",
        "specs": "tensors.spec",
        "to_device": "tensors.arrays",
        "to_numpy": "tensors.arrays",
        "to_torch": "tensors.arrays",
    },
)
