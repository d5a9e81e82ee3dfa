"""Models for authors of plugins: finding a model, its options, weights, task and state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.data import (
        DataRecord as DataRecord,
        Item as Item,
    )
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
    from enginebay.named_objects import (
        named_object as named_object,
    )
    from enginebay.tasks import (
        read_task as read_task,
    )
    from enginebay.verification import (
        evaluator_outputs as evaluator_outputs,
        reference_model as reference_model,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "data": "DataRecord Item",
        "models": (
            "BoundModel Call ModelSource Options check_source evaluation find_model "
            "fixed_seed image_size load_weights measure_norms read_options shapes_of "
            "take_weights unchanged"
        ),
        "named_objects": "named_object",
        "tasks": "read_task",
        "verification": "evaluator_outputs reference_model",
    },
)
