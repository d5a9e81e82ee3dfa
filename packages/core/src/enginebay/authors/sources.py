"""Models for authors of plugins: finding a model, its options, weights, task and state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.data import (
        DataRecord as DataRecord,
        Item as Item,
        split_batches as split_batches,
    )
    from enginebay.evaluator import evaluator_outputs as evaluator_outputs
    from enginebay.models import BoundModel as BoundModel, Call as Call, shapes_of as shapes_of
    from enginebay.named_objects import (
        named_object as named_object,
    )
    from enginebay.reference import reference_model as reference_model
    from enginebay.sources import (
        ModelSource as ModelSource,
        Options as Options,
        check_source as check_source,
        digest_weights as digest_weights,
        find_model as find_model,
        fixed_seed as fixed_seed,
        image_size as image_size,
        load_weights as load_weights,
        measure_norms as measure_norms,
        no_model_error as no_model_error,
        read_options as read_options,
        take_weights as take_weights,
        wrap_import_errors as wrap_import_errors,
    )
    from enginebay.state import evaluation as evaluation, unchanged as unchanged
    from enginebay.tasks import (
        read_task as read_task,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "data": "DataRecord Item split_batches",
        "evaluator": "evaluator_outputs",
        "models": "BoundModel Call shapes_of",
        "named_objects": "named_object",
        "reference": "reference_model",
        "sources": (
            "ModelSource Options check_source digest_weights find_model fixed_seed image_size "
            "load_weights measure_norms no_model_error read_options take_weights "
            "wrap_import_errors"
        ),
        "state": "evaluation unchanged",
        "tasks": "read_task",
    },
)
