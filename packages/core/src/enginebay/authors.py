"""Public names for authors of plugins: arrays, child processes, IR files, model sources.

A backend or a model source may import this module, :mod:`enginebay`, :mod:`enginebay.hooks`,
:mod:`enginebay.errors` and :mod:`enginebay.environment`, but no other module of Enginebay. The
backends and model sources of this repository follow this rule too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names as lazy_names

if TYPE_CHECKING:
    from enginebay.artifact import (
        LoadRequest as LoadRequest,
        Manifest as Manifest,
        check_target as check_target,
        load_request as load_request,
        move_artifact as move_artifact,
        use_artifact as use_artifact,
    )
    from enginebay.comparators import (
        assign as assign,
        touching as touching,
    )
    from enginebay.config import (
        Problems as Problems,
        read_config as read_config,
        read_table as read_table,
    )
    from enginebay.data import (
        DataRecord as DataRecord,
        Item as Item,
    )
    from enginebay.files import (
        lock_file as lock_file,
        replacement as replacement,
        write_whole as write_whole,
    )
    from enginebay.inference import (
        Latency as Latency,
        count_time as count_time,
    )
    from enginebay.ir import (
        quiet as quiet,
        read_exported_program as read_exported_program,
        read_ir as read_ir,
        read_onnx as read_onnx,
        read_torchscript as read_torchscript,
        source_modules as source_modules,
        to_half as to_half,
    )
    from enginebay.isolation import Worker as Worker, call as call, run as run
    from enginebay.models import (
        BoundModel as BoundModel,
        Call as Call,
        ModelSource as ModelSource,
        Options as Options,
        check_source as check_source,
        evaluation as evaluation,
        find_model as find_model,
        fixed_seed as fixed_seed,
        image_size as image_size,
        load_weights as load_weights,
        measure_norms as measure_norms,
        read_options as read_options,
        shapes_of as shapes_of,
        take_weights as take_weights,
        unchanged as unchanged,
    )
    from enginebay.named_objects import named_object as named_object
    from enginebay.operations import (
        Step as Step,
        Steps as Steps,
        input_sets as input_sets,
    )
    from enginebay.params import (
        ShapeProfile as ShapeProfile,
        Shapes as Shapes,
        declared_fields as declared_fields,
        format_dims as format_dims,
        name_shapes as name_shapes,
        parse_shapes as parse_shapes,
        resolve_profiles as resolve_profiles,
    )
    from enginebay.plugins import (
        contributed as contributed,
        forget_plugins as forget_plugins,
        installed_backends as installed_backends,
    )
    from enginebay.rewriting import (
        Context as Context,
        LoweringContext as LoweringContext,
        Rewriting as Rewriting,
    )
    from enginebay.tasks import read_task as read_task
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
    from enginebay.time_limits import (
        check_time_limit as check_time_limit,
        time_left as time_left,
        time_limit as time_limit,
    )
    from enginebay.verdict import OutputComparison as OutputComparison
    from enginebay.verification import (
        compare_outputs as compare_outputs,
        evaluator_outputs as evaluator_outputs,
        reference_model as reference_model,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "artifact": "LoadRequest Manifest check_target load_request move_artifact use_artifact",
        "comparators": "assign touching",
        "config": "Problems read_config read_table",
        "data": "DataRecord Item",
        "files": "lock_file replacement write_whole",
        "inference": "Latency count_time",
        "ir": (
            "quiet read_exported_program read_ir read_onnx read_torchscript source_modules to_half"
        ),
        "isolation": "Worker call run",
        "models": (
            "BoundModel Call ModelSource Options check_source evaluation find_model fixed_seed "
            "image_size load_weights measure_norms read_options shapes_of "
            "take_weights unchanged"
        ),
        "named_objects": "named_object",
        "operations": "Step Steps input_sets",
        "params": (
            "ShapeProfile Shapes declared_fields format_dims name_shapes parse_shapes "
            "resolve_profiles"
        ),
        "plugins": "contributed forget_plugins installed_backends",
        "rewriting": "Context LoweringContext Rewriting",
        "tasks": "read_task",
        "tensors": (
            "Array NumpyArray PackedArray Sample inputs_for is_torch load_samples numpy_dtype "
            "output_leaves parse_inputs save_samples to_numpy to_torch"
        ),
        "time_limits": "check_time_limit time_left time_limit",
        "verdict": "OutputComparison",
        "verification": "compare_outputs evaluator_outputs reference_model",
    },
)
__all__ += ["lazy_names"]
