"""Help for those who write plugins: arrays, child processes, IR files, shapes, model sources.

A backend or a model source needs this module, :mod:`enginebay`, :mod:`enginebay.hooks`,
:mod:`enginebay.errors` and :mod:`enginebay.environment`, and nothing else of Enginebay. The
backends and model sources of this repository keep to the same rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.artifact import LoadRequest, Manifest, check_target, load_request, use_artifact
    from enginebay.backend import read_ir
    from enginebay.comparators import assign, touching
    from enginebay.config import read_config
    from enginebay.data import DataRecord, Item
    from enginebay.files import write_whole
    from enginebay.inference import Latency, count_time
    from enginebay.ir import (
        quiet,
        read_exported_program,
        read_onnx,
        read_torchscript,
        source_modules,
        to_half,
    )
    from enginebay.isolation import Worker, call, check_time_limit, run, time_left, time_limit
    from enginebay.models import (
        BoundModel,
        Call,
        ModelSource,
        Options,
        evaluation,
        find_model,
        fixed_seed,
        image_size,
        load_weights,
        measure_norms,
        named_object,
        read_options,
        shapes_of,
        take_weights,
        unchanged,
    )
    from enginebay.operations import Step, Steps, input_sets
    from enginebay.params import (
        ShapeProfile,
        Shapes,
        format_dims,
        name_shapes,
        parse_shapes,
        resolve_profiles,
    )
    from enginebay.plugins import contributed
    from enginebay.rewriting import Context, LoweringContext, Rewriting
    from enginebay.tasks import read_task
    from enginebay.tensors import (
        Array,
        NumpyArray,
        PackedArray,
        Sample,
        inputs_for,
        is_torch,
        load_samples,
        numpy_dtype,
        output_leaves,
        parse_inputs,
        save_samples,
        to_numpy,
        to_torch,
    )
    from enginebay.verdict import OutputComparison
    from enginebay.verification import compare_outputs, evaluator_outputs, reference_model

__all__ = [
    "Array",
    "BoundModel",
    "Call",
    "Context",
    "DataRecord",
    "Item",
    "Latency",
    "LoadRequest",
    "LoweringContext",
    "Manifest",
    "ModelSource",
    "NumpyArray",
    "Options",
    "OutputComparison",
    "PackedArray",
    "Rewriting",
    "Sample",
    "ShapeProfile",
    "Shapes",
    "Step",
    "Steps",
    "Worker",
    "assign",
    "call",
    "check_target",
    "check_time_limit",
    "compare_outputs",
    "contributed",
    "count_time",
    "evaluation",
    "evaluator_outputs",
    "find_model",
    "fixed_seed",
    "format_dims",
    "image_size",
    "input_sets",
    "inputs_for",
    "is_torch",
    "lazy_names",
    "load_request",
    "load_samples",
    "load_weights",
    "measure_norms",
    "name_shapes",
    "named_object",
    "numpy_dtype",
    "output_leaves",
    "parse_inputs",
    "parse_shapes",
    "quiet",
    "read_config",
    "read_exported_program",
    "read_ir",
    "read_onnx",
    "read_options",
    "read_task",
    "read_torchscript",
    "reference_model",
    "resolve_profiles",
    "run",
    "save_samples",
    "shapes_of",
    "source_modules",
    "take_weights",
    "time_left",
    "time_limit",
    "to_half",
    "to_numpy",
    "to_torch",
    "touching",
    "unchanged",
    "use_artifact",
    "write_whole",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Array": "tensors",
        "BoundModel": "models",
        "Call": "models",
        "Context": "rewriting",
        "DataRecord": "data",
        "Item": "data",
        "Latency": "inference",
        "LoadRequest": "artifact",
        "LoweringContext": "rewriting",
        "Manifest": "artifact",
        "ModelSource": "models",
        "NumpyArray": "tensors",
        "Options": "models",
        "OutputComparison": "verdict",
        "PackedArray": "tensors",
        "Rewriting": "rewriting",
        "Sample": "tensors",
        "ShapeProfile": "params",
        "Shapes": "params",
        "Step": "operations",
        "Steps": "operations",
        "Worker": "isolation",
        "assign": "comparators",
        "call": "isolation",
        "check_target": "artifact",
        "check_time_limit": "isolation",
        "compare_outputs": "verification",
        "contributed": "plugins",
        "count_time": "inference",
        "evaluation": "models",
        "evaluator_outputs": "verification",
        "find_model": "models",
        "fixed_seed": "models",
        "format_dims": "params",
        "image_size": "models",
        "input_sets": "operations",
        "inputs_for": "tensors",
        "is_torch": "tensors",
        "load_request": "artifact",
        "load_samples": "tensors",
        "load_weights": "models",
        "measure_norms": "models",
        "name_shapes": "params",
        "named_object": "models",
        "numpy_dtype": "tensors",
        "output_leaves": "tensors",
        "parse_inputs": "tensors",
        "parse_shapes": "params",
        "quiet": "ir",
        "read_config": "config",
        "read_exported_program": "ir",
        "read_ir": "backend",
        "read_onnx": "ir",
        "read_options": "models",
        "read_task": "tasks",
        "read_torchscript": "ir",
        "reference_model": "verification",
        "resolve_profiles": "params",
        "run": "isolation",
        "save_samples": "tensors",
        "shapes_of": "models",
        "source_modules": "ir",
        "take_weights": "models",
        "time_left": "isolation",
        "time_limit": "isolation",
        "to_half": "ir",
        "to_numpy": "tensors",
        "to_torch": "tensors",
        "touching": "comparators",
        "unchanged": "models",
        "use_artifact": "artifact",
        "write_whole": "files",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
