"""Tensors: names, dtypes and shapes, arrays of NumPy and torch, nested values, recorded samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.tensors.array_checks import (
        equal_arrays as equal_arrays,
        is_all_non_finite as is_all_non_finite,
        is_float as is_float,
    )
    from enginebay.tensors.arrays import (
        NumpyArray as NumpyArray,
        host_tensor as host_tensor,
        host_view as host_view,
        is_text as is_text,
        is_torch as is_torch,
        numpy_dtype as numpy_dtype,
        to_device as to_device,
        to_numpy as to_numpy,
        to_torch as to_torch,
    )
    from enginebay.tensors.caches import is_cache as is_cache
    from enginebay.tensors.extremes import (
        find_extremes as find_extremes,
        measure_shares as measure_shares,
    )
    from enginebay.tensors.input_arrays import (
        generate_input as generate_input,
        inputs_for as inputs_for,
        parse_inputs as parse_inputs,
        resize as resize,
        suggest_inputs as suggest_inputs,
    )
    from enginebay.tensors.nested_values import (
        leaves as leaves,
        map_leaves as map_leaves,
        map_named as map_named,
        output_leaves as output_leaves,
    )
    from enginebay.tensors.packed_array import PackedArray as PackedArray
    from enginebay.tensors.samples import (
        Sample as Sample,
        is_recorded as is_recorded,
        load_samples as load_samples,
        save_arrays as save_arrays,
        save_samples as save_samples,
    )
    from enginebay.tensors.spec import (
        Array as Array,
        TensorSpec as TensorSpec,
        dtype_name as dtype_name,
        specs as specs,
    )
    from enginebay.tensors.tensor_names import (
        choose_unused_name as choose_unused_name,
        rename_tensors as rename_tensors,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "tensors.tensor_names": "choose_unused_name rename_tensors",
        "tensors.array_checks": "equal_arrays is_all_non_finite is_float",
        "tensors.arrays": (
            "NumpyArray host_tensor host_view is_text is_torch numpy_dtype to_device to_numpy "
            "to_torch"
        ),
        "tensors.caches": "is_cache",
        "tensors.extremes": "find_extremes measure_shares",
        "tensors.input_arrays": "generate_input inputs_for parse_inputs resize suggest_inputs",
        "tensors.packed_array": "PackedArray",
        "tensors.samples": "Sample is_recorded load_samples save_arrays save_samples",
        "tensors.spec": "Array TensorSpec dtype_name specs",
        "tensors.nested_values": "leaves map_leaves map_named output_leaves",
    },
)
