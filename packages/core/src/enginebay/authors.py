"""Help for those who write plugins: arrays, child processes, IR files, shapes, model sources.

A backend or a model source needs this module, :mod:`enginebay`, :mod:`enginebay.hooks`,
:mod:`enginebay.errors` and :mod:`enginebay.environment`, and nothing else of Enginebay. The
backends and model sources of this repository keep to the same rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.files import write_whole
    from enginebay.inference import count_time
    from enginebay.ir import quiet, read_exported_program, read_onnx, read_torchscript, to_half
    from enginebay.isolation import call, check_time_limit, run, time_left
    from enginebay.models import (
        Options,
        fixed_seed,
        image_size,
        load_weights,
        measure_norms,
        named_object,
        read_options,
        take_weights,
    )
    from enginebay.params import (
        ShapeProfile,
        Shapes,
        format_dims,
        name_shapes,
        parse_shapes,
        resolve_profiles,
    )
    from enginebay.rewriting import Context, LoweringContext
    from enginebay.tensors import Array, NumpyArray, is_torch, numpy_dtype

__all__ = [
    "Array",
    "Context",
    "LoweringContext",
    "NumpyArray",
    "Options",
    "ShapeProfile",
    "Shapes",
    "call",
    "check_time_limit",
    "count_time",
    "fixed_seed",
    "format_dims",
    "image_size",
    "is_torch",
    "lazy_names",
    "load_weights",
    "measure_norms",
    "name_shapes",
    "named_object",
    "numpy_dtype",
    "parse_shapes",
    "quiet",
    "read_exported_program",
    "read_onnx",
    "read_options",
    "read_torchscript",
    "resolve_profiles",
    "run",
    "take_weights",
    "time_left",
    "to_half",
    "write_whole",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Array": "tensors",
        "Context": "rewriting",
        "LoweringContext": "rewriting",
        "NumpyArray": "tensors",
        "Options": "models",
        "ShapeProfile": "params",
        "Shapes": "params",
        "call": "isolation",
        "check_time_limit": "isolation",
        "count_time": "inference",
        "format_dims": "params",
        "image_size": "models",
        "is_torch": "tensors",
        "load_weights": "models",
        "name_shapes": "params",
        "named_object": "models",
        "numpy_dtype": "tensors",
        "parse_shapes": "params",
        "quiet": "ir",
        "read_exported_program": "ir",
        "read_onnx": "ir",
        "read_options": "models",
        "read_torchscript": "ir",
        "resolve_profiles": "params",
        "run": "isolation",
        "fixed_seed": "models",
        "measure_norms": "models",
        "take_weights": "models",
        "time_left": "isolation",
        "to_half": "ir",
        "write_whole": "files",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
